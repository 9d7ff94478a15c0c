// The stage: which round and node are shown, and how a run is loaded.
import assert from "node:assert/strict";
import { test } from "node:test";

import { bestRound, scenesOf } from "../../assets/stage/film.js";
import { Player } from "../../assets/stage/player.js";
import { compareRuns } from "../../assets/stage/slowdown.js";
import { Stage } from "../../assets/stage/stage.js";
import { header, line, round } from "./rounds.js";

const state = (name, run = "a", message = "") => ({ state: name, run, message });
const rounds = (...indices) => indices.map((index) => line({ parents: [-1, 0, 0], keep: [0, 2], index }));
const END = { end: { reason: "stop" } };

function stageAt(...indices) {
  const stage = new Stage();
  stage.read([state("done"), header(), ...rounds(...indices), END, state("done")]);
  return stage;
}

// Return an answer that sends these lines one by one; it throws an Error and awaits a promise.
const answer = (...lines) => async function* arriving() {
  for (const line of lines) {
    const one = await line;
    if (one instanceof Error) throw one;
    if (one) yield [one];
  }
};

test("a recording with gaps ends on its last round and counts the missing ones", () => {
  const stage = stageAt(0, 1, 3, 6);
  assert.deepEqual([0, 1, 2, 3].map((place) => stage.run.missing(place)), [0, 0, 1, 2]);
  assert.equal(stage.atEnd, false);
  stage.go(3, {});
  assert.ok(stage.atEnd);
  stage.go(99, {});
  assert.equal(stage.current, 3);
  assert.equal(stage.figures.tokens, 8);
});

test("a pinned node stays while others are hovered over, and is cleared with its round", () => {
  const stage = stageAt(0, 1);
  const told = [];
  stage.on("select", ({ node, pinned }) => told.push([node, pinned]));
  stage.pin(1);
  stage.hover(2);
  stage.hover(null);
  stage.hover(7); // not a node of this round
  stage.pin(1);
  stage.pin(2);
  stage.go(stage.current + 1);
  assert.deepEqual(told, [[1, true], [2, false], [1, true], [null, false], [2, true], [null, false]]);
});

test("the run that is shown stays until the next one has a round", () => {
  const stage = stageAt(0, 1);
  stage.showRequested("Why?", []);
  assert.ok(stage.busy && stage.pending.prompt === "Why?" && !stage.atEnd);
  stage.read([state("queued", "b", "Two runs are ahead.")]);
  assert.deepEqual([stage.value.run, stage.state], ["a", "queued"]);
  stage.read([state("running", "b"), header()]);
  assert.deepEqual([stage.value.run, stage.state], ["a", "running"]);
  stage.read([{ about: { outside: true } }, ...rounds(0)]);
  assert.deepEqual([stage.value.run, stage.rounds.length, stage.pending, stage.live, stage.about.outside], ["b", 1, null, true, true]);
  stage.disconnect("");
  assert.equal(stage.state, "lost");
});

test("a run ends in the state of its last line, and is ignored after another was opened", async () => {
  const stage = stageAt(0, 1);
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  const slow = stage.follow(answer(state("running", "b"), header(), gate, ...rounds(0)));
  assert.ok(await stage.follow(answer(state("done", "c"), header(), ...rounds(0, 1), END, state("done", "c"))));
  go();
  assert.equal(await slow, false);
  assert.deepEqual([stage.value.run, stage.rounds.length, stage.state, stage.run.end.reason], ["c", 2, "done", "stop"]);
});

test("a run that ends without a round, or that the server refuses, shows the server's message", async () => {
  const stage = stageAt(0, 1);
  const refused = [];
  stage.on("refused disconnected", (message) => refused.push(message));
  stage.showRequested("Why?", []);
  assert.equal(await stage.follow(answer(state("running", "b"), state("error", "b", "No."))), false);
  assert.deepEqual([refused, stage.refusal, stage.value.run, stage.busy], [["No."], "No.", "a", false]);
  stage.showRequested("", []);
  assert.equal(await stage.follow(answer(state("error", "", "The prompt is empty."))), false);
  assert.deepEqual([refused[1], stage.value.run, stage.busy], ["The prompt is empty.", "a", false]);
  assert.equal(await stage.follow(answer(state("running", "b"), new Error("gone"))), false);
  assert.equal(refused.length, 3, "the server is gone");
});

test("a run that was left does not appear to continue if the one opened in its place is gone", async () => {
  const stage = new Stage();
  await stage.follow(async function* lines(signal) {
    yield [state("running"), header(), ...rounds(0)];
    await new Promise((_, fail) => { signal.addEventListener("abort", fail); });
  });
  assert.ok(stage.live);
  assert.equal(await stage.follow(answer(state("error", "b", "There is no run b any more."))), false);
  assert.deepEqual([stage.value.run, stage.state, stage.busy], ["a", "stopped", false]);
});

test("an error in a part of the page is not reported as an unreachable server", async (context) => {
  const said = context.mock.method(console, "error", () => undefined);
  const stage = new Stage();
  const told = [];
  stage.on("run", () => { throw new Error("It cannot be drawn."); });
  for (const event of ["run", "disconnected"]) stage.on(event, () => told.push(event));
  assert.ok(await stage.follow(answer(state("done"), header(), ...rounds(0, 1), END, state("done"))));
  assert.deepEqual([told, stage.rounds.length, stage.state, said.mock.callCount()], [["run"], 2, "done", 1]);
});

test("a stopped run is shown as stopped at once, or as done if its last lines say so", async () => {
  const stage = stageAt(0);
  let go;
  const gate = new Promise((resolve) => { go = resolve; });
  assert.ok(await stage.follow(answer(state("running", "b"), header(), ...rounds(0), gate, ...rounds(1), END, state("done", "b"))), "it is shown and continues");
  assert.deepEqual([stage.halt(), stage.state], ["b", "stopped"]);
  go();
  await new Promise((resolve) => { setTimeout(resolve, 10); });
  assert.deepEqual([stage.state, stage.run.end.reason, stage.rounds.length], ["done", "stop", 2]);
  stage.showRequested("Why?", []);
  stage.read([state("queued", "c")]);
  assert.deepEqual([stage.halt(), stage.busy, stage.value.run], ["c", false, "b"]);
});

test("a second header restarts the run", () => {
  const stage = new Stage();
  stage.read([state("running"), header(), ...rounds(0, 1, 2), header(), ...rounds(0), END, state("done")]);
  assert.deepEqual([stage.rounds.length, stage.state], [1, "done"]);
});

test("the server's speed is shown if there is one, and none is drawn if it is withheld", () => {
  const stage = stageAt(0, 1);
  for (const one of stage.rounds) Object.assign(one, { seconds: { verify: 0.02 }, spent: 0.02 });
  assert.deepEqual(stage.speed, { text: "100", value: 100, doubt: "" });
  stage.setComparison("a", { state: "ended", speed: { withheld: "", speed: "113", plain_speed: "50.2", times: "2.3×" } });
  assert.deepEqual([stage.speed, stage.withheld], [{ text: "113", value: 113, doubt: "" }, ""]);
  stage.setComparison("a", { state: "ended", speed: { withheld: "Busy.", speed: "97.1", plain_speed: "", times: "" } });
  assert.deepEqual([stage.speed, stage.withheld, stage.speedup], [{ text: "97.1", value: null, doubt: "not compared" }, "Busy.", null]);
  for (const [state, again, slowed] of [["ended", true, true], ["interrupted", true, false], ["ended", false, false]]) {
    stage.setComparison("a", { state, speed: { withheld: "Busy.", again, speed: "97.1" } });
    assert.equal(stage.slowed, slowed);
  }
  stage.setComparison("a", { state: "measuring", speed: { withheld: "Too short.", speed: "97.1" } });
  assert.deepEqual([stage.speed.value, stage.withheld], [100, ""]);
});

test("a played run is compared with plain decoding when its last round is shown", () => {
  const stage = new Stage();
  const timed = [];
  stage.server = { compare: async ({ run }) => timed.push(run) && { error: "Forged." } };
  compareRuns(stage);
  stage.on("arrived", () => stage.go(0, { follow: true }));
  globalThis.window = { matchMedia: () => ({ matches: false }) };
  stage.mode = "story";
  stage.read([state("running"), header({ recorded: "" }), ...rounds(0, 1, 2), END, state("done")]);
  assert.deepEqual([stage.current, timed], [0, []]);
  stage.go(2, { follow: true });
  assert.deepEqual(timed, ["a"]);
  stage.go(0);
  stage.go(2);
  assert.deepEqual(timed, ["a"]);
});

test("if the next request is refused, the run that was played is shown to its end and timed", () => {
  const stage = new Stage();
  const timed = [];
  stage.server = { compare: async ({ run }) => timed.push(run) && { error: "Forged." } };
  compareRuns(stage);
  new Player(stage);
  globalThis.window = { matchMedia: () => ({ matches: false }) };
  stage.mode = "story";
  stage.read([state("running"), header({ recorded: "" }), ...rounds(0, 1, 2), END, state("done")]);
  stage.emit("requested");
  assert.deepEqual([stage.playsBehind, timed], [true, []]);
  stage.failRequest("The queue is full.");
  assert.deepEqual([stage.playsBehind, stage.current, timed], [false, 2, ["a"]]);
});

test("while a run is timed nothing is drawn", async () => {
  const stage = stageAt(0, 1);
  let polls = 0;
  stage.server = { compare: async () => ({ job: "j" }), compared: async () => (polls++ < 2
    ? { state: "running", result: { state: "measuring", speed: {} } }
    : { state: "done", result: { state: "ended", speed: {} } }) };
  compareRuns(stage);
  const drawn = [];
  const timed = new Promise((resolve) => {
    stage.on("compared", () => drawn.push(stage.comparison?.state) && !stage.comparing && resolve());
  });
  stage.run.header.recorded = "";
  stage.go(1);
  await timed;
  assert.deepEqual(drawn, [undefined, "ended", "ended"]);
});

test("only the rounds before a repetition are measured", () => {
  const stage = stageAt(0, 1, 2);
  stage.read([{ about: { repetition: { token: 2, round: 1, words: "From token 3 on the text repeats itself." } } }]);
  assert.deepEqual([stage.figuresBeforeRepetition.tokens, stage.figures.tokens], [2, 6]);
  stage.read([state("running", "b"), header(), ...rounds(0)]);
  assert.equal(stage.repetition, null);
});

test("the film shows the round with most words in path and branches, and omits figures that were not compared", () => {
  const saying = (piece, parents, keep) => round({ parents, keep, pieces: new Map(parents.map((_, id) => [id, piece])) });
  const chain = (length, kept) => saying(" word", Array.from({ length }, (_, node) => node - 1), [...Array(kept).keys()]);
  const bush = saying(" word", [-1, 0, 0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 4]);
  const rounds = [chain(9, 1), chain(9, 6), bush, chain(12, 8)];
  assert.equal(bestRound(rounds), 2, "three kept of a tree show more than eight of a chain");
  assert.equal(bestRound([...rounds, chain(20, 16)]), 4, "but not more than sixteen");
  assert.equal(bestRound([chain(4, 4), saying(" word", [-1, 0, 0, 1], [0, 1, 3])]), 1, "a fork shows more than a line");
  const stray = round({ parents: [-1, 0, 0], keep: [0, 1], pieces: new Map([[0, " to"], [1, " check"], [2, ";"]]) });
  assert.equal(bestRound([chain(3, 3), stray]), 1, "even a stray sign beside two words");
  assert.equal(bestRound([saying("[:", [-1, 0, 0, 0, 1, 2], [0, 1, 4]), chain(3, 3)]), 1, "words show more than signs");
  const pieces = new Map([[0, " to"], [1, " check"], [2, " list"], [3, "ing"], [4, "'s"]]);
  const cut = round({ parents: [-1, 0, 0, 1, 2], keep: [0, 1, 3], pieces });
  assert.equal(bestRound([cut, saying(" word", [-1, 0, 0, 1], [0, 1])]), 1, "and more than pieces of words");
  const film = (verdict, more) => scenesOf({ roundsBeforeRepetition: rounds, comparison: { state: "ended", tracks: { texts: ["a"] }, text: { verdict }, ...more } });
  assert.deepEqual(film("same"), ["plain", "guess", "verify", "race", "same", "card"]);
  assert.deepEqual(film("parted"), ["guess", "verify", "race", "card"]);
  assert.deepEqual(film("same", { state: "measuring" }), ["guess", "verify", "card"]);
  assert.deepEqual(scenesOf({ roundsBeforeRepetition: rounds, comparison: null }), ["guess", "verify", "card"]);
  assert.deepEqual(scenesOf({ roundsBeforeRepetition: [chain(1, 1)], comparison: { state: "ended", tracks: { texts: ["a"] }, text: { verdict: "parted" } } }), ["race", "card"]);
});

test("a live run counts as played until its last round is shown", () => {
  const stage = new Stage();
  stage.read([state("running"), header(), ...rounds(0, 1, 2)]);
  stage.read([END, state("done")]);
  stage.go(1, { follow: true });
  assert.equal(stage.playsBehind, true);
  stage.showRepresentative(0);
  assert.equal(stage.playsBehind, false, "its end shows one of its rounds");
});

test("only a branched run links back to its origin", () => {
  const stage = new Stage();
  const begin = (name, ids) => stage.read([state("done", name), header({ forced: 1 }, { prompt_ids: ids }), ...rounds(0), END]);
  stage.branch = { run: "a", prompt_ids: [1, 2] };
  const lefts = [["b", [1, 2]], ["c", [1, 3]], ["b", [1, 2]]].map(([name, ids]) => {
    begin(name, ids);
    return stage.parentRun;
  });
  assert.deepEqual(lefts, ["a", "", "a"]);
});

test("a run can branch off if no earlier round is missing, and not with a token that ends the text", () => {
  const stage = Object.assign(new Stage(), { server: {}, loadedRig: "demo" });
  stage.read([state("done"), header({ rig: "demo" }, { stop_ids: [7] }), ...rounds(0, 1, 3), END, state("done")]);
  const can = [0, 1, 2].map((place) => {
    stage.go(place);
    return stage.canBranch;
  });
  assert.deepEqual(can, [true, true, false]);
  assert.deepEqual([7, 8].map((token) => stage.endsText(token)), [true, false]);
});

test("a run that ended in its first round is at its end, and is compared with plain decoding", () => {
  const stage = new Stage();
  let asked = 0;
  stage.mode = "workbench";
  stage.server = { compare: async () => ({ error: `asked ${++asked}` }) };
  compareRuns(stage);
  stage.read([state("running"), header({ recorded: "" }), ...rounds(0)]);
  assert.ok(!stage.atEnd && asked === 0);
  stage.read([END, state("done")]);
  assert.ok(stage.atEnd && asked === 1);
});
