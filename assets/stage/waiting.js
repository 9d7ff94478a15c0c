// What is said of a run before its first round, and of a text that did not end by itself.
(function (Canopy) {
  "use strict";

  const BELOW = "Until its first round, the tree and the figures are those of the run before.";

  // {headline, more} for a run that has no round yet.
  Canopy.waiting = function waiting({ coming, rounds }) {
    const queued = coming.state === "queued";
    return { headline: queued ? "Your run waits." : coming.message, more: [queued && coming.message, rounds.length && BELOW].filter(Boolean).join(" ") };
  };

  const CUTS = {
    stopped: { lead: "Stopped after ", words: () => "■ Stopped here." },
    lost: { lead: "Broken off after ", words: () => "▲ Broken off here: the server stopped answering." },
    error: { lead: "Broken off after ", words: () => "▲ Broken off here by an error." },
    length: { lead: "Cut off after ", words: ({ max_tokens }) => `✂ Cut off here: Max tokens is ${max_tokens} (workbench, More).` },
    context: { lead: "Cut off after ", words: ({ context_limit }) => `✂ Cut off here: the context of ${context_limit} positions is full.` },
  };

  // {lead, words} where the text that is shown did not end by itself; null where it did, or goes on.
  Canopy.cut = function cut({ value, header, live }) {
    if (live || !header) return null;
    const reason = value.end ? value.end.reason : value.state;
    const made = CUTS[reason];
    return made ? { lead: made.lead, words: made.words(header) } : null;
  };
})(window.Canopy = window.Canopy || {});
