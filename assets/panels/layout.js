// A tidy left-to-right layout: columns are depths, rows are whole numbers, no two edges cross.
//
// A node's first child lies on its own row, the others below, each subtree as high as the one above it allows
// (the contours of Reingold and Tilford, hung from the top instead of centred). In every column the nodes keep
// the order of their parents, which is why curves of one family between two columns cannot cross. The kept path
// comes first everywhere, so it is a straight line along row 0, and nothing else is on that row.
(function (Canopy) {
  "use strict";

  // Children in drawing order: the kept one first, the rest as the tree has them; none under a folded node.
  function ordered(parents, kept, folded) {
    const size = parents.length;
    const children = Array.from({ length: size }, () => []);
    for (let node = 1; node < size; node++) {
      const parent = parents[node];
      if (folded.has(parent)) continue;
      if (kept.has(node)) children[parent].unshift(node);
      else children[parent].push(node);
    }
    return children;
  }

  // How far below its elder siblings a subtree has to start: at every depth under the lowest of theirs.
  function clearance(bottom, top) {
    let least = 0;
    const shared = Math.min(bottom.length, top.length);
    for (let level = 0; level < shared; level++) least = Math.max(least, bottom[level] - top[level] + 1);
    return least;
  }

  function extend(contour, child, shift, isBottom) {
    for (let level = 0; level < child.length; level++) {
      if (isBottom || level >= contour.length) contour[level] = child[level] + shift;
    }
  }

  // parents[i] < i. `kept` holds the kept rows; `tail` is the node that carries the bonus, whose row to the
  // right stays free for it. Gives each node's column and row; the row is -1 where a folded ancestor hides it.
  function layout(parents, kept, tail, folded) {
    const size = parents.length;
    const children = ordered(parents, kept, folded);
    const shift = new Float64Array(size);
    const tops = new Array(size);
    const bottoms = new Array(size);
    for (let node = size - 1; node >= 0; node--) {
      const top = [];
      const bottom = node === tail ? [0] : [];
      if (node === tail) top.push(0);
      for (const child of children[node]) {
        shift[child] = clearance(bottom, tops[child]);
        extend(top, tops[child], shift[child], false);
        extend(bottom, bottoms[child], shift[child], true);
        tops[child] = bottoms[child] = null;
      }
      tops[node] = [0, ...top];
      bottoms[node] = [0, ...bottom];
    }
    return settle(parents, children, shift, tail);
  }

  function settle(parents, children, shift, tail) {
    const size = parents.length;
    const columns = new Int32Array(size);
    const rows = new Float64Array(size).fill(-1);
    rows[0] = 0;
    let deepest = tail === 0 ? 1 : 0;
    let lowest = 0;
    for (let node = 0; node < size; node++) {
      if (rows[node] < 0) continue;
      for (const child of children[node]) {
        columns[child] = columns[node] + 1;
        rows[child] = rows[node] + shift[child];
      }
      deepest = Math.max(deepest, columns[node] + (node === tail ? 1 : 0));
      lowest = Math.max(lowest, rows[node]);
    }
    return { columns, rows, children, columnCount: deepest + 1, rowCount: lowest + 1 };
  }

  Canopy.layout = layout;
})(window.Canopy = window.Canopy || {});
