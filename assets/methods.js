// Written by `make types` from METHODS (engine/decoding/methods.py) and looks (explorer/lab/style.py). Change those.

/** @type {Record<string, { summary: string, drafts: boolean, splits: boolean, color: string, symbol: string }>} */
export const METHODS = {
  autoregressive: {"summary": "No drafter: the target writes one token a pass.", "drafts": false, "splits": false, "color": "var(--method-plain)", "symbol": "x"},
  dflash: {"summary": "One block-diffusion drafter, its most likely chain (DFlash).", "drafts": true, "splits": false, "color": "var(--method-dflash)", "symbol": "square"},
  ddtree: {"summary": "The most probable prefixes under the drafter's marginals (DDTree).", "drafts": true, "splits": false, "color": "var(--method-ddtree)", "symbol": "circle"},
  routed: {"summary": "Two trees are drafted; the more confident one is verified.", "drafts": true, "splits": false, "color": "var(--method-routed)", "symbol": "triangle-up"},
  merged: {"summary": "Two disjoint trees under one root are verified in one pass.", "drafts": true, "splits": true, "color": "var(--method-merged)", "symbol": "diamond"},
  joint: {"summary": "One tree over both drafters; a shared prefix is one node.", "drafts": true, "splits": false, "color": "var(--method-joint)", "symbol": "star"},
  expand: {"summary": "A drafter that sees its own path grows the best nodes of each depth (EAGLE-2).", "drafts": true, "splits": false, "color": "var(--method-expand)", "symbol": "hexagon"},
  nanogpt: {"summary": "A full depth × width tree over an n-gram drafter, children tried in turn.", "drafts": true, "splits": false, "color": "var(--method-nanogpt)", "symbol": "triangle-down"},
  nanogpt_ratio: {"summary": "The same tree accepted with min(1, p/q). Biased: for study only.", "drafts": true, "splits": false, "color": "var(--method-nanogpt)", "symbol": "triangle-down-open"},
};
