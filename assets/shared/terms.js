// What the words of the field mean: on the page of help, and in the lab on hover.

export const TERMS = [
  ["target", "The big model whose text it is: it checks every guess and keeps what it would have written itself."],
  ["drafter", "What guesses ahead, at little cost: a small model, or a table of phrases. With two of them, each has its own colour."],
  ["rig", "A target with its drafters, loaded on the server and ready to answer."],
  ["plain decoding", "One token per pass of the target, without a drafter: the baseline of every speed-up."],
  ["round", "One draft, one pass of the target over it, and what is kept of it."],
  ["τ", "Tokens per round on average, the root included. Plain decoding has τ = 1."],
  ["root", "The token that the target chose last: the round begins with it, and the tree grows from it."],
  ["bonus", "The target's own token after the last accepted guess. It is the next round's root."],
  ["node budget", "How many guesses a round may draft; how far ahead they reach is their depth. The target verifies one row more, the root's."],
  ["auto", "The adaptive budget: each round verifies as many nodes as pay on this machine, and none if plain decoding is faster."],
  ["transitions", "What a drafter such as DFlash 2 expects after each of its own guesses: a row of probabilities for every guess before. A tree over them joins guesses that fit together, where marginals rank each position alone."],
  ["kept rows", "The rows of the pass that stay in the KV cache, root first; all other rows are dropped."],
  ["μ", "Mean path probability of a drafter's nodes: how sure it is. The method routed verifies the surer drafter's tree."],
];
