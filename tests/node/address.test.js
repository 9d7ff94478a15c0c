// The values that a link's address may contain.
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.window = { location: { hash: "" } };
const { Address } = await import("../../assets/stage/address.js");

test("turns in a link that are not pairs of texts are ignored", () => {
  const turnsOf = (turns) => {
    window.location.hash = `#${new URLSearchParams({ ask: JSON.stringify({ prompt: "Why?", turns }) })}`;
    return Address.read().ask.turns;
  };
  assert.deepEqual(turnsOf([["user", "Who?"], ["assistant", "I."]]), [["user", "Who?"], ["assistant", "I."]]);
  for (const turns of [[["assistant", 5]], [["user"]], ["user"], "user", [["user", "a", "b"]]]) assert.deepEqual(turnsOf(turns), []);
});
