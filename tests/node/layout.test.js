// The tree's layout, in which no edges cross and the kept path is a straight line, and the camera over it.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Camera, layoutOf } from "../../assets/panels/layout.js";
import { cellsOf } from "../../assets/panels/icicle.js";
import { random, tree } from "./rounds.js";

function depthsOf(parents) {
  return parents.reduce((depths, parent) => [...depths, parent < 0 ? 0 : depths[parent] + 1], []);
}

test("nodes of a depth have different places, and no two edges cross", () => {
  const next = random(1);
  for (let size = 1; size < 60; size++) {
    const { parents, keep } = tree(size, next);
    const { columns, rows, columnCount, rowCount } = layoutOf(parents, new Set(keep), keep.at(-1));
    assert.deepEqual(Array.from(columns), depthsOf(parents));
    assert.equal(new Set(parents.map((_, node) => `${columns[node]} ${rows[node]}`)).size, size);
    for (let depth = 1; depth < columnCount; depth++) {
      const ends = [...parents.keys()].filter((node) => columns[node] === depth).sort((one, other) => rows[one] - rows[other]);
      for (const [place, node] of ends.slice(1).entries()) assert.ok(rows[parents[ends[place]]] <= rows[parents[node]]);
    }
    assert.ok(Math.max(...rows) < rowCount && Math.min(...rows) === 0);
  }
});

test("the kept path is alone on the first row, and the place after it is free for the bonus token", () => {
  const next = random(2);
  for (let turn = 0; turn < 50; turn++) {
    const { parents, keep } = tree(40, next);
    const { columns, rows, columnCount } = layoutOf(parents, new Set(keep), keep.at(-1));
    assert.deepEqual([...parents.keys()].filter((node) => rows[node] === 0).sort((one, other) => columns[one] - columns[other]), keep);
    assert.ok(columnCount > keep.length);
  }
});

test("a camera fits the tree, keeps the point that it zooms at, and can be restored from an address", () => {
  const camera = new Camera({ on() {} });
  camera.fitColumns(800, Array(8).fill(30), 4, () => "flat");
  camera.row = camera.rowFor(400, 20);
  assert.ok(camera.x(0) > 0 && camera.x(8) < 800 && camera.y(19) < 400);
  assert.equal(camera.text(), "");
  const place = (camera.x(5) - camera.left) / camera.column;
  const x = camera.x(5);
  assert.ok(camera.zoom(1.5, x, camera.y(4)));
  assert.equal(Math.round(1e6 * (camera.left + place * camera.column)), Math.round(1e6 * x));
  const other = new Camera({ on() {} });
  assert.ok(other.restore(camera.text()) && other.text() === camera.text());
  for (const wrong of ["", "1,2,3", "1,2,3,x", "0,1,2,3", "1,1,1,1e9"]) assert.equal(new Camera({ on() {} }).restore(wrong), false);
});

test("icicle: children fill their parent's cell in proportion to their branches, and the kept path keeps its width", () => {
  //   0 ─ 1 ─ 3,  0 ─ 2 ─ 4 ─ 5,  the path is 0, 1
  const { left, width, bonus } = cellsOf([[1, 2], [3], [4], [], [5], []], [0, 1]);
  for (const [node, parent] of [0, 0, 0, 1, 2, 4].entries()) {
    assert.ok(left[node] >= left[parent] - 1e-12 && left[node] + width[node] <= left[parent] + width[parent] + 1e-12);
  }
  assert.ok(Math.abs(width[1] + width[2] - 1) < 1e-12 && width[4] === width[2] && width[5] === width[2]);
  assert.ok(bonus > 0 && left[3] >= bonus - 1e-12);
  const rejected = Array.from({ length: 1000 }, (_, place) => place + 2);
  assert.ok(cellsOf([[1, ...rejected], [], ...rejected.map(() => [])], [0, 1]).width[1] > 0.1);
});

test("runs share lines: each node has its own place, under the kept path", () => {
  const next = random(3);
  for (let turn = 0; turn < 50; turn++) {
    const { parents, keep } = tree(60, next);
    const wrap = (runs) => runs.length === 0 ? [] : [{ items: runs.flat().map((node, place) => ({ node, column: 1, offset: 10 * place, room: 8, follows: place > 0 && !runs.flat().includes(parents[node]) })), reach: 1 }];
    const { columns, rows, places, rowCount } = layoutOf(parents, new Set(keep), keep.at(-1), new Map(), 2, wrap);
    assert.ok(rowCount <= layoutOf(parents, new Set(keep), keep.at(-1)).rowCount + 2 && Math.min(...rows) === 0);
    assert.equal(new Set(parents.map((_, node) => `${columns[node]} ${places.get(node)?.offset} ${rows[node]}`)).size, 60);
    for (const node of places.keys()) assert.ok(rows[node] > 0);
  }
});

test("branches that leave their columns have their rows alone to the right end, and what a number stands for lies in its row", () => {
  //   0 ─ 1 ─ 2 ─ 3 ─ 4,  2 ─ 5,  0 ─ 6 ─ 7 ─ 8;  kept 0; from 2 on they leave their columns, 4 is hidden behind 3
  const parents = [-1, 0, 1, 2, 3, 2, 0, 6, 7];
  const place = (node, room, unnamed) => [node, { node, column: 2, offset: 10 * node, room, unnamed, follows: false }];
  const flowing = new Map([place(2, 8, []), place(3, 0, [3, 4]), place(4, 0, []), place(5, 8, []), place(7, 8, []), place(8, 8, [])]);
  const { rows, children } = layoutOf(parents, new Set([0]), 0, flowing);
  assert.equal(rows[4], rows[3]);
  assert.ok(rows[3] === rows[2] && rows[5] > rows[3] && rows[7] > rows[5], "no branch begins beside another one");
  assert.deepEqual(children[3], [4]);
});
