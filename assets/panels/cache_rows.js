// The cache's rows on a strip: where each is drawn, and their fates in words.
(function (Canopy) {
  "use strict";

  const KEPT = { least: 9, share: 0.6 }; // a kept slot's width and what all of them may take, where slots are narrow
  const WIDEST = 40;

  // Where each slot of the pass begins, and where the last ends. A thousand slots leave none wide enough to be seen, so
  // the kept ones are drawn wider then, and the dropped ones share what is left.
  function edgesOf(round, room) {
    const even = Math.min(WIDEST, room / round.n);
    const wide = Math.max(even, Math.min(KEPT.least, (KEPT.share * room) / round.keep.length));
    const dropped = round.n - round.keep.length;
    const narrow = dropped ? Math.min(even, (room - wide * round.keep.length) / dropped) : 0;
    const edges = new Float64Array(round.n + 1);
    for (let node = 0; node < round.n; node++) edges[node + 1] = edges[node] + (round.kept.has(node) ? wide : narrow);
    return { edges, uneven: wide > even };
  }

  // How many kept rows already lie where they belong, how many are moved there, and how many are dropped.
  function say(still, moved, dropped, brief) {
    const where = [still && `${still} in place`, moved && `${moved} moved`, dropped && `${dropped} dropped`].filter(Boolean);
    return (brief ? "" : "rows: ") + where.join(", ");
  }

  Canopy.cacheRows = { edgesOf, say };
})(window.Canopy = window.Canopy || {});
