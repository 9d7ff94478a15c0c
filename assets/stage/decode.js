// From the server's JSON to the model of a round that panels draw: typed arrays, and what follows from them.
(function (Canopy) {
  "use strict";

  const KINDS = { "<i4": Int32Array, "<i2": Int16Array, "<f4": Float32Array };
  const ORIGINS = ["root", "head1", "head2", "both"];
  const SIGNS = { " ": "␣", "\n": "⏎", "\r": "␍", "\t": "⇥" };

  function bytesOf(text) {
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let place = 0; place < raw.length; place++) bytes[place] = raw.charCodeAt(place);
    return bytes;
  }

  function array(packed) {
    return new KINDS[packed.dtype](bytesOf(packed.data).buffer);
  }

  function integers(packed) {
    return Int32Array.from(array(packed));
  }

  function pieces(named, into) {
    for (const id in named) {
      const piece = named[id];
      into.set(Number(id), typeof piece === "string" ? piece : Array.from(piece));
    }
  }

  function text(piece, id) {
    if (piece === undefined) return `⟨${id}⟩`;
    return typeof piece === "string" ? piece : new TextDecoder().decode(new Uint8Array(piece));
  }

  // White space and control characters as signs, bytes that are no whole character as ⟨e2⟩.
  function show(piece, id) {
    if (piece === undefined) return `⟨${id}⟩`;
    if (typeof piece !== "string") return piece.map((byte) => `⟨${byte.toString(16).padStart(2, "0")}⟩`).join("");
    if (piece === "") return "⟨⟩";
    return piece.replace(/[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (sign) =>
      SIGNS[sign] || `⟨${sign.codePointAt(0).toString(16).padStart(2, "0")}⟩`);
  }

  function tree(view) {
    const parents = integers(view.parents);
    const n = parents.length;
    const depths = new Int32Array(n);
    const children = Array.from({ length: n }, () => []);
    for (let node = 1; node < n; node++) {
      depths[node] = depths[parents[node]] + 1;
      children[parents[node]].push(node);
    }
    return { n, tokens: integers(view.tokens), parents, depths, children,
      logprobs: array(view.logprobs), heads: integers(view.heads) };
  }

  function draft(view) {
    const [depth, rows, k] = view.tokens.shape;
    return { depth, rows, k, tokens: integers(view.tokens), logprobs: array(view.logprobs) };
  }

  function trials(view) {
    return view && { nodes: integers(view.nodes), chances: array(view.chances), draws: array(view.draws) };
  }

  function round(view, header, named) {
    const made = tree(view.tree);
    const kept = new Set(view.keep);
    const verification = view.verification;
    return {
      ...made,
      index: view.index, start: view.start, elapsed: view.elapsed,
      choice: integers(verification.choice), choiceLogprobs: array(verification.logprobs),
      entropy: array(verification.entropy), gap: array(verification.gap), offered: array(verification.offered),
      keep: Array.from(view.keep), kept,
      fate: Array.from(made.parents, (_, node) => (node === 0 ? "root" : kept.has(node) ? "accepted" : "rejected")),
      bonus: view.bonus, trials: trials(view.trials),
      ghosts: view.ghosts.map((ghost) => ({ head: ghost.head, ...tree(ghost) })),
      drafts: view.drafts.map(draft), scores: Array.from(view.scores), seconds: { ...view.seconds },
      method: header.method, budget: header.budget, heads_names: Array.from(header.heads),
      path(node) {
        const steps = [node];
        while (steps[0] !== 0) steps.unshift(made.parents[steps[0]]);
        return steps;
      },
      text: (id) => text(named.get(id), id),
      show: (id) => show(named.get(id), id),
      origin: (node) => ORIGINS[made.heads[node] & 3],
    };
  }

  // The figures of some rounds: engine time alone, the root of each round included in τ.
  Canopy.figures = function figures(rounds) {
    let tokens = 0;
    let seconds = 0;
    for (const made of rounds) {
      tokens += made.keep.length;
      for (const stage in made.seconds) seconds += made.seconds[stage];
    }
    const count = rounds.length;
    return {
      tokens, seconds, rounds: count, tau: count ? tokens / count : 0, accepted: count ? tokens / count - 1 : 0,
      tokensPerSecond: seconds > 0 ? tokens / seconds : 0,
    };
  };

  Canopy.decode = { array, pieces, round, text, show };
})(window.Canopy = window.Canopy || {});
