// The panels by name. A panel: {name, title, caption, legend?, place?, when?(stage): whether it is there at all,
// create(host, stage) -> {draw, select, resize?, svg?, fit?, search?}}. Its place: {row: "upper" (beside the text) or
// "lower", share: of the row's width, against its neighbours'}; in a row panels stand in the order in which they are
// defined.
export const panels = new Map();

export function define(panel) {
  panels.set(panel.name, panel);
}
