// The verifier's walk as steps, read from a round; nothing is drawn here.
(function (Canopy) {
  "use strict";

  function trialsOf(round) {
    const found = new Map();
    if (!round.trials) return found;
    for (let turn = 0; turn < round.trials.nodes.length; turn++) {
      const chance = round.trials.chances[turn];
      const draw = round.trials.draws[turn];
      found.set(round.trials.nodes[turn], { turn, chance, draw, passed: draw < chance });
    }
    return found;
  }

  // A child as it was offered: q is the drafter's probability of this step, p the target's for the same token.
  function offer(round, node, child, trials, next) {
    return {
      node: child,
      token: round.tokens[child],
      q: Math.exp(round.logprobs[child] - round.logprobs[node]),
      p: Math.exp(round.offered[child]),
      kept: child === next,
      match: round.trials ? child === next : round.tokens[child] === round.choice[node],
      trial: trials.get(child) || null,
    };
  }

  // Matching first, then tried in the order of the trials, then the most probable under the drafter.
  function inOrder(one, other) {
    const turn = (child) => (child.trial ? child.trial.turn : Infinity);
    if (turn(one) !== turn(other)) return turn(one) - turn(other);
    return Number(other.kept) - Number(one.kept) || Number(other.match) - Number(one.match) || other.q - one.q;
  }

  // One step per kept row. `outcome` is "match" where the walk goes on, "bonus" where no child is the target's choice,
  // and "end" where the text ended (a stop token or max_tokens) although a child matched.
  function walkOf(round) {
    const trials = trialsOf(round);
    return round.keep.map((node, place) => {
      const next = round.keep[place + 1] ?? null;
      const offers = round.children[node].map((child) => offer(round, node, child, trials, next)).sort(inOrder);
      const wanted = (child) => child.token === round.bonus && (!child.trial || child.trial.passed);
      const cut = next === null && offers.some(wanted);
      return {
        place, node, offers, next,
        outcome: next !== null ? "match" : cut ? "end" : "bonus",
        choice: next !== null ? round.tokens[next] : round.bonus,
        chance: round.trials ? null : Math.exp(round.choiceLogprobs[node]),
        gap: round.gap[node],
        entropy: round.entropy[node],
      };
    });
  }

  Canopy.walkOf = walkOf;
})(window.Canopy = window.Canopy || {});
