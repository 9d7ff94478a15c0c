// The Markdown of a finished answer as elements: headings, lists, tables, quotes, code, bold and italics. Text becomes text
// nodes, never markup, and every piece keeps its place in the source, so that it can keep the colours of its tokens.

import { html } from "../shared/ink.js";

/** Writes a range of the source into an element. @typedef {(parent: Element, from: number, to: number) => void} Write */
/** A line of the source: its text, and where that begins. @typedef {{ text: string, from: number }} Line */

const FENCE = /^\s*(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+/;
const QUOTE = /^\s*>\s?/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const INLINE = /(`+)(.+?)\1|\*\*(.+?)\*\*|__(.+?)__|\*([^\s*][^*]*)\*|\b_([^_]+)_\b/g;
const MAX_DEPTH = 16; // of quotes and lists within one another; what lies deeper is text
/** @type {("code" | "strong" | "em")[]} */
const TAGS = ["code", "strong", "strong", "em", "em"]; // of the groups of INLINE

/** @param {string} source @param {Element} parent @param {Write} write */
export function markdown(source, parent, write) {
  let from = 0;
  const lines = source.split("\n").map((text) => {
    const line = { text, from };
    from += text.length + 1;
    return line;
  });
  blocks(lines, parent, write);
}

/** @param {Line[]} lines @param {Element} parent @param {Write} write @param {number} depth */
function blocks(lines, parent, write, depth = 0) {
  const nests = depth < MAX_DEPTH;
  let at = 0;
  /** Takes lines while they fit. @param {(line: Line, index: number) => boolean} fits */
  const take = (fits) => {
    const first = at;
    while (at < lines.length && fits(lines[at], at - first)) at++;
    return lines.slice(first, at);
  };
  while (at < lines.length) {
    const { text } = lines[at];
    const fence = FENCE.exec(text)?.[1];
    if (!text.trim()) at++;
    else if (fence) {
      at++;
      const code = take((line) => !line.text.trimStart().startsWith(fence));
      at++;
      const box = html("code", "", html("pre", { tabIndex: 0, role: "group", "aria-label": "Code" }, parent)); // it scrolls
      const last = code.at(-1);
      if (last) write(box, code[0].from, last.from + last.text.length);
    } else if (HEADING.test(text)) {
      const [mark, signs] = /** @type {RegExpExecArray} */ (HEADING.exec(text));
      inline(cut(lines[at++], mark.length), html("p", `cs-heading is-${signs.length}`, parent), write);
    } else if (RULE.test(text)) {
      at++;
      html("hr", "", parent);
    } else if (nests && QUOTE.test(text)) {
      const quoted = take((line) => QUOTE.test(line.text)).map((line) => cut(line, QUOTE.exec(line.text)?.[0].length ?? 0));
      blocks(quoted, html("blockquote", "", parent), write, depth + 1);
    } else if (nests && ITEM.test(text)) list(take((line, index) => !index || !line.text.trim() || ITEM.test(line.text) || /^\s{2,}/.test(line.text)), parent, write, depth + 1);
    else if (text.includes("|") && TABLE_RULE.test(lines[at + 1]?.text ?? "")) table(take((line) => line.text.includes("|")), parent, write);
    else {
      const words = take((line, index) => !index || !(!line.text.trim() || FENCE.test(line.text) || HEADING.test(line.text) || ITEM.test(line.text) || QUOTE.test(line.text)));
      inline({ text: words.map((line) => line.text).join("\n"), from: words[0].from }, html("p", "", parent), write);
    }
  }
}

/** A line without its first signs. @param {Line} line @param {number} signs */
const cut = ({ text, from }, signs) => ({ text: text.slice(signs), from: from + signs });

/** Items of one list; what is indented further belongs to the item before it.
 *  @param {Line[]} lines @param {Element} parent @param {Write} write @param {number} depth */
function list(lines, parent, write, depth) {
  const [, indent, sign] = /** @type {RegExpExecArray} */ (ITEM.exec(lines[0].text));
  const box = html(/\d/.test(sign) ? "ol" : "ul", /\d/.test(sign) ? { start: parseInt(sign, 10) } : {}, parent);
  /** @type {Line[][]} */
  const items = [];
  for (const line of lines) {
    const item = ITEM.exec(line.text);
    if (item && item[1].length <= indent.length) items.push([cut(line, item[0].length)]);
    else items[items.length - 1].push(cut(line, Math.min(/^\s*/.exec(line.text)?.[0].length ?? 0, indent.length + sign.length + 1)));
  }
  for (const [first, ...rest] of items) {
    const item = html("li", "", box);
    inline(first, item, write);
    blocks(rest, item, write, depth);
  }
}

/** @param {Line[]} lines the head, the rule, and the rows @param {Element} parent @param {Write} write */
function table([head, , ...rows], parent, write) {
  const box = html("table", "", parent);
  for (const line of [head, ...rows]) {
    const row = html("tr", "", box);
    let { from } = line;
    const cells = line.text.split("|").map((text) => {
      const cell = { text, from };
      from += text.length + 1;
      return cell;
    });
    for (const [index, cell] of cells.entries()) {
      const outside = !cell.text.trim() && (index === 0 || index === cells.length - 1); // of the bars at the ends
      if (!outside) inline(cut(cell, /^\s*/.exec(cell.text)?.[0].length ?? 0), html(line === head ? "th" : "td", "", row), write);
    }
  }
}

/** @param {Line} line @param {Element} parent @param {Write} write */
function inline({ text, from }, parent, write) {
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, ticks, ...groups] = found;
    const kind = groups.findIndex((group) => group !== undefined);
    const inner = { text: groups[kind], from: from + found.index + (all.length - groups[kind].length) / 2 };
    if (found.index > end) write(parent, from + end, from + found.index);
    const box = html(TAGS[kind], "", parent);
    if (ticks) write(box, inner.from, inner.from + inner.text.length);
    else inline(inner, box, write);
    end = found.index + all.length;
  }
  if (end < text.length) write(parent, from + end, from + text.length);
}
