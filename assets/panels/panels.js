// The panels of the stage, in the order in which they stand: a panel is one new file and one line here.

import "./tree.js";
import "./budget.js";
import "./marginals.js";
import "./mask.js";
import "./verifier.js";
import "./cache.js";
import "./batch.js";
