// The search for a token while a run goes on.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Search } from "../../assets/stage/search.js";
import { Stage } from "../../assets/stage/stage.js";
import { header, line } from "./rounds.js";

globalThis.document = { createElement: () => ({ append() {}, addEventListener() {}, setAttribute() {} }) };

const round = (index, tokens, pieces) => ({ ...line({ parents: [-1, 0], keep: [0], index, tokens }), pieces });

test("later rounds are searched too, the shown hit stays, and words may be several tokens", () => {
  const stage = new Stage();
  const search = new Search(stage, { go() {} }, { append() {} });
  const state = { state: "running", run: "a", message: "" };
  stage.read([state, header(), round(0, [1, 1], { 1: "no" })]);
  search.field.value = "yes";
  search.find();
  stage.read([state, round(1, [1, 2], { 2: "Yes" })]);
  search.step(1);
  stage.read([state, round(2, [2, 3], { 3: " yes" })]);
  assert.deepEqual(search.hits, [{ index: 1, node: 1 }, { index: 2, node: 0 }, { index: 2, node: 1 }]);
  assert.equal(search.hitIndex, 0);
  stage.read([{ ...state, run: "b" }, header(), round(0, [5, 4], { 4: "yes", 5: "" })]);
  assert.deepEqual(search.hits, [{ index: 0, node: 1 }]);
  stage.read([{ ...state, run: "c" }, header(), round(0, [6, 4], { 6: "pen" }), round(1, [7, 6], { 7: "s" }), round(2, [6, 7], {})]);
  search.field.value = "pens";
  search.find(true);
  assert.deepEqual(search.hits, [{ index: 0, node: 0 }], "kept one after the other, where they begin");
});
