// Questions to the server, of which a newer one is asked once the older is answered.
import assert from "node:assert/strict";
import { test } from "node:test";

import { oneAtATime, pause } from "../../assets/shared/ink.js";

test("an older answer never overtakes a newer one, and a failure ends nothing", async () => {
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
