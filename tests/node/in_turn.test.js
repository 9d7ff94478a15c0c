// Work that takes turns: requests to the server, and deferred drawings.
import assert from "node:assert/strict";
import { test } from "node:test";

import { DeferredDrawing } from "../../assets/panels/panel.js";
import { oneAtATime, pause } from "../../assets/shared/ink.js";

test("an older answer never replaces a newer one, and a failure does not stop later requests", async () => {
  const answered = [];
  let asked = 0;
  const draw = oneAtATime(async () => {
    const number = ++asked;
    await pause(number === 1 ? 30 : 1);
    if (number === 3) throw new Error("gone");
    answered.push(number);
  });
  await Promise.all([draw(), draw(), draw()]);
  assert.deepEqual(answered, [1, 2]);
  await assert.rejects(draw());
  await draw();
  assert.deepEqual(answered, [1, 2, 4]);
});

test("a deferred drawing that fails does not stop others, and unfinished ones take turns", (t) => {
  const frames = [];
  globalThis.requestAnimationFrame = (act) => frames.push(act);
  t.after(() => delete globalThis.requestAnimationFrame);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const drawn = [];
  let left = 2;
  const fail = () => { throw new Error("forged"); };
  const long = () => drawn.push("long") && --left > 0;
  const short = () => !drawn.push("short");
  for (const act of [fail, long, short]) new DeferredDrawing(act).begin();
  t.mock.timers.tick(1000);
  assert.throws(() => frames.shift()(), /forged/);
  while (frames.length) frames.shift()();
  assert.deepEqual(drawn, ["long", "short", "long"]);
  assert.equal(DeferredDrawing.unfinished.size, 0);
});
