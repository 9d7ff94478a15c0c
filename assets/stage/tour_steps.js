// The tour's texts: what to look at, what it means, and something to try.
(function (Canopy) {
  "use strict";

  Canopy.tourSteps = [
    { mode: "story", at: ".cs-story", title: "One pass, many tokens",
      text: "A language model usually writes one token (a word or a piece of one) per pass. Here a drafter, a small model, guesses ahead; the big model, the target, checks all guesses at once and keeps those that it would have written itself.",
      exercise: "Press → a few times. Which round kept most?" },
    { mode: "story", at: ".cs-frame-text", title: "Where each token came from",
      text: "Purple tokens are the target's own. Blue and orange ones were guessed by one of the two drafters, green ones by both. A bar marks where a round begins.",
      exercise: "Click a token in the middle of the text: the page goes to the round that wrote it." },
    { mode: "workbench", at: "[data-panel=tree]", title: "The draft tree",
      text: "Guesses share their beginnings, so they form a tree. The accepted path runs straight along the top and ends in the bonus, a diamond: the target's own next token.",
      exercise: "Press / and search for a token that was rejected. How deep was it in the tree?" },
    { mode: "workbench", at: "[data-panel=marginals]", title: "Why this tree",
      text: "Each drafter gives probabilities for every position ahead. The node budget is spent on the most probable beginnings; the outline shows where it ran out.",
      exercise: "Set the budget to 8 and press Run, then 256. Where does the outline move?" },
    { mode: "workbench", at: "[data-panel=mask]", title: "One pass over all branches",
      text: "The tree is verified as one sequence. The mask lets each row see its own ancestors and nothing else; with merged, two blocks stand side by side.",
      exercise: "Run the method merged and find the two empty blocks off the diagonal." },
    { mode: "workbench", at: "[data-panel=verifier]", title: "The walk",
      text: "At each node the target names its own next token. If a child carries it, the walk goes on; if none does, that token is the bonus and the round ends.",
      exercise: "Find a step with a small gap: there the model nearly chose otherwise." },
    { mode: "workbench", at: "[data-panel=cache]", title: "What stays",
      text: "The pass wrote a row of the KV cache for every node. The rows of the accepted path are moved together and kept; all others are dropped.",
      exercise: "Hover a kept row and find the same node in the tree and in the mask." },
    { mode: "workbench", at: ".cs-metrics", title: "Is it worth it?",
      text: "τ is the mean number of tokens per round, the root included. A larger tree raises τ, but each pass takes longer, so one budget is the fastest.",
      exercise: "Raise the budget step by step and press Run each time. Where do tokens per second fall although τ still grows?" },
    { mode: "lab", at: ".lab-sweep", title: "The fastest setting here",
      text: "The lab measures methods and node budgets on this machine, in mixed order beside plain decoding, and names the fastest with its interval. With the budget auto, each round verifies as many nodes as pay.",
      exercise: "Press ▶ Measure and watch the points arrive. Is auto the fastest?" },
  ];
})(window.Canopy = window.Canopy || {});
