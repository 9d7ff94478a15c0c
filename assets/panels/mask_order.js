// In which order the mask's rows stand, and the blocks that the order shows.
(function (Canopy) {
  "use strict";

  function depthFirst(round) {
    const order = [];
    const open = [0];
    while (open.length) {
      const node = open.pop();
      order.push(node);
      for (let place = round.children[node].length - 1; place >= 0; place--) open.push(round.children[node][place]);
    }
    return order;
  }

  // Runs of neighbours under the root that come from one drafter alone: the blocks M1 and M2 of a merged tree.
  function blocksOf(round, order) {
    const blocks = [];
    for (let place = 1; place < order.length; place++) {
      const mask = round.drafters[order[place]];
      const last = blocks[blocks.length - 1];
      if (last && last.mask === mask) last.end = place + 1;
      else blocks.push({ mask, start: place, end: place + 1 });
    }
    const pair = blocks.length === 2 && blocks[0].mask + blocks[1].mask === 3;
    return pair ? blocks : [];
  }

  Canopy.maskOrder = { depthFirst, blocksOf };
})(window.Canopy = window.Canopy || {});
