/** The panels by name; in a row they stand in the order in which they are defined. @type {Map<string, PanelDefinition>} */
export const panels = new Map();

export function define(/** @type {PanelDefinition} */ panel) {
  panels.set(panel.name, panel);
}
