// Where a tree's columns and rows lie on the screen: a scale per axis and an offset, so that text keeps its size
// at every zoom. Row 0 (the kept path) has a band of its own, in which its labels stand.
(function (Canopy) {
  "use strict";

  const LEFT = 40;
  const RIGHT = 58;
  const TOP = { flat: 48, staggered: 64 }; // the kept path's labels stand on one line or on two
  const BOTTOM = 14;
  const BAND = 26; // pixels from row 0 to row 1 at least
  const COLUMN = { least: 46, most: 168 };
  const ROW = { least: 0.1, most: 26 };

  class Camera {
    constructor() {
      this.column = 80;
      this.row = 16;
      this.left = LEFT;
      this.top = top;
      this.held = false; // true once a person has zoomed or panned: then a new round leaves the view alone
    }

    get band() {
      return Math.max(BAND, this.row);
    }

    x(column) {
      return this.left + column * this.column;
    }

    y(row) {
      return row <= 0 ? this.top : this.top + this.band + (row - 1) * this.row;
    }

    // `staggers` says of a column width whether the kept path's labels need two lines.
    fit(width, height, columns, rows, staggers) {
      const wide = (width - LEFT - RIGHT) / Math.max(1, columns - 1);
      const column = Math.min(COLUMN.most, Math.max(COLUMN.least, wide));
      const top = staggers(column) ? TOP.staggered : TOP.flat;
      const high = (height - top - BAND - BOTTOM) / Math.max(1, rows - 2);
      this.column = column;
      this.row = Math.min(ROW.most, Math.max(ROW.least, high));
      this.left = LEFT;
      this.top = top;
      this.held = false;
    }

    // Zoom by a factor with the point (x, y) kept where it is. False where nothing would change.
    zoom(factor, x, y) {
      const column = Math.min(320, Math.max(12, this.column * factor));
      const row = Math.min(64, Math.max(ROW.least, this.row * factor));
      if (column === this.column && row === this.row) return false;
      const place = (x - this.left) / this.column;
      const line = 1 + (y - this.y(1)) / this.row;
      this.column = column;
      this.row = row;
      this.left = x - place * column;
      if (line >= 1) this.top = y - this.band - (line - 1) * row;
      this.held = true;
      return true;
    }

    pan(right, down) {
      this.left += right;
      this.top += down;
      this.held = true;
    }

    centre(column, row, width, height) {
      this.left += width / 2 - this.x(column);
      this.top += height / 2 - this.y(row);
      this.held = true;
    }
  }

  Canopy.Camera = Camera;
})(window.Canopy = window.Canopy || {});
