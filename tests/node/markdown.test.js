// The Markdown of an answer, rendered into a stub document that stores tags, children and text.
import assert from "node:assert/strict";
import { test } from "node:test";

import { markdown } from "../../assets/stage/markdown.js";

globalThis.document = { createElement: (tag) => ({ tag, children: [], append(child) { this.children.push(child); }, setAttribute() {} }) };

function render(source) {
  const box = document.createElement("div");
  markdown(source, box, (parent, from, to) => parent.append(source.slice(from, to)));
  return box;
}

const shape = (part) => (typeof part === "string" ? part : [part.tag, ...part.children.map(shape)]);
const textOf = (part) => (typeof part === "string" ? part : part.children.map(textOf).join(""));

test("Markdown becomes elements, and the text between them is kept", () => {
  assert.deepEqual(shape(render("a **b *c*** `d`_e\n\n> - f\n>   - _g_")), ["div",
    ["p", "a ", ["strong", "b *c"], "* ", ["code", "d"], "_e"],
    ["blockquote", ["ul", ["li", "f", ["ul", ["li", ["em", "g"]]]]]]]);
});

for (const [what, source] of [["a line of quote signs", `${">".repeat(4000)} end`], ["a line of italics", `${"*a* ".repeat(8000)}end`]]) {
  test(`${what} is rendered to its end`, () => assert.match(textOf(render(source)), /end$/));
}
