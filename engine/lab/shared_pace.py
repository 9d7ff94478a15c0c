"""The state of one request that shares a total of rows: what its trees promise, what its drafts yielded, and what it is
owed. ``shared_budget.py`` decides how the rows are divided.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from engine.lab.adaptive import (
    FIRST_BUDGET,
    FIRST_PAUSE,
    LONGEST_PAUSE,
    PAUSE_GROWTH,
    WHOLE_TREES,
    PromiseTally,
    best_order,
)
from engine.lab.cost import CostCurve
from engine.lab.sharing import Chances
from engine.records import Acceptance, DraftTree, Integers
from engine.trees.tree import beginning, select

STEPS = (1, 2, 3, 5, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025)  # of a tree, for calibration
STEP_OF = np.asarray([bisect_right(STEPS, place) for place in range(STEPS[-1])])
FIRST_DRAFTS = 2  # drafts of a request before their yield is judged
USUAL_DRAFTS, LAST = 4.0, 0.2  # the usual yield's weight in drafts; the last draft's weight in the expected yield
WORTH_MEMORY = 0.9  # weight of what was seen a draft ago
HOPELESS = 0.02  # a node with a smaller chance does not help a request to catch up
LONE_MEMORY = 0.8  # weight of what a request was expected to get alone one tree ago
MOST_CREDIT = 4.0  # tokens that a request may run ahead of its share, and fall back by later


class SharedPace:
    """The ``BudgetPolicy`` of one request that shares a total of rows."""

    def __init__(self, promise: float) -> None:
        self.promise, self.tokens, self.seconds = promise, 0, 0.0
        self._lone, self._due = 0.0, 0.0  # tokens per ms that it could expect alone; tokens that its share is by now
        self.drafts, self.drafters, self.room = True, 1, FIRST_BUDGET
        self._drafted, self._brought, self._last = 0.0, 0.0, 0.0  # drafts of late, what they brought, and the last one
        self._tried = self._pause = self._paused = self._whole_trees = 0
        self._tally = PromiseTally(STEPS)
        self._order: Integers | None = None  # of the built tree, where its nodes do not lie best first
        self._raw: Chances = np.zeros(0)

    def opens(self, drafters: int, budget: int) -> tuple[int, int]:
        """See ``BudgetPolicy``."""
        if not self.drafts:
            return 0, 0
        self.drafters = drafters
        return drafters, min(budget, self.room)

    def cut(self, tree: DraftTree) -> DraftTree:
        """See ``BudgetPolicy``: the whole tree, since the allotment cuts it once it has seen all trees."""
        return tree

    def learn(self, tree: DraftTree, acceptance: Acceptance) -> None:
        """See ``BudgetPolicy``."""
        self.tokens += len(acceptance.keep)
        if len(tree) == 1:
            return
        kept = acceptance.keep if self._order is None else best_order(tree).argsort()[acceptance.keep]
        promised = np.bincount(STEP_OF[:len(tree)], np.concatenate([np.ones(1), self._raw[:len(tree) - 1]]))
        self._tally.learn(promised.tolist(), kept.tolist())

    def chances(self, tree: DraftTree) -> Chances:
        """The chances (n,) of a built tree's nodes, best first: the drafter's probabilities, scaled by how often such
        places were accepted."""
        falling = bool((tree.logprobs[1:] <= tree.logprobs[:-1]).all())
        self._order = None if falling else best_order(tree)
        logprobs = tree.logprobs if self._order is None else tree.logprobs[self._order]
        self._raw = np.exp(logprobs[1:STEPS[-1]].astype(np.float64))
        scaled = self._raw * np.asarray(self._tally.scales)[STEP_OF[1:len(self._raw) + 1]]
        fallen: Chances = np.minimum.accumulate(np.minimum(scaled, 1.0))
        return fallen

    def owed(self, chances: Chances, seconds: float) -> int:
        """How many nodes it needs to have kept its promise, and to have its share, after a round of ``seconds``; nodes
        of too small a chance do not count."""
        missing = max(self.promise * (self.seconds + seconds), self._due) - self.tokens - 1
        if missing <= 0:
            return 0
        helpful = int((chances >= HOPELESS).sum())
        return min(helpful, int(np.searchsorted(chances.cumsum(), missing)) + 1)

    def expect(self, chances: Chances, lone: CostCurve) -> None:
        """Update the rate that it could expect alone, by a tree whose nodes have these chances."""
        sizes = np.asarray([size for size in lone.rows if size <= len(chances) + 1])
        tokens = 1 + np.concatenate([np.zeros(1), chances.cumsum()])[sizes - 1]
        around = self.drafters * lone.draft_at(self.room) + lone.overhead_ms
        rate = max(1 / lone.plain_ms, float((tokens / (np.asarray(lone.verify_low_ms[:len(sizes)]) + around)).max()))
        self._lone = LONE_MEMORY * self._lone + (1 - LONE_MEMORY) * rate if self._lone else rate

    def entitle(self, milliseconds: float) -> None:
        """Add the tokens that it could expect alone in these milliseconds, its share of a round, to what it is due; 0
        where shares are not guaranteed."""
        if milliseconds:
            self._due = max(self._due + self._lone * milliseconds, self.tokens - MOST_CREDIT)

    def taken(self, tree: DraftTree, nodes: int) -> DraftTree:
        """The most probable nodes of the built tree, in its own order. Trees are built no larger than the last choice,
        and larger once the whole tree was chosen several times in a row."""
        whole = 0 < len(tree) - 1 == nodes
        self._whole_trees = self._whole_trees + 1 if whole else 0
        grown = STEPS[min(bisect_right(STEPS, nodes + 1), len(STEPS) - 1)] - 1
        self.room = max(FIRST_BUDGET, grown if self._whole_trees >= WHOLE_TREES else nodes)
        if self._order is None:
            return beginning(tree, nodes)
        return select(tree, np.sort(self._order[:nodes + 1]))

    def weigh(self, net: float) -> None:
        """Take note of the tokens that a draft yielded, net of its rows' time."""
        self._tried += 1
        self._drafted = WORTH_MEMORY * self._drafted + 1
        self._brought = WORTH_MEMORY * self._brought + net
        self._last = net

    def worth(self, usual: float) -> float:
        """The tokens that its next draft may yield, where any request's yields ``usual``: few drafts tell little of a
        request, and the last one something of the next. After a pause only the last one counts."""
        if self._pause:
            return self._last
        own = (USUAL_DRAFTS * usual + self._brought) / (USUAL_DRAFTS + self._drafted)
        return own + LAST * (self._last - own) if self._drafted else own

    @property
    def wanted(self) -> bool:
        """Whether it drafts whatever its drafts yielded: at first, after a pause, and while its promise is not kept."""
        untried = self._tried < FIRST_DRAFTS or self._paused >= self._pause > 0
        return untried or max(self.promise * self.seconds, self._due) > self.tokens

    def settle(self, drafts: bool) -> None:
        """Set whether it drafts this round. A request whose drafts no longer pay pauses, ever longer, until one pays
        again; earlier drafts are then forgotten."""
        if drafts:
            if self._pause and not self.wanted:
                self._drafted, self._brought, self._pause = 1.0, self._last, 0
            self._paused = 0
        else:
            if self.drafts:
                self._pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, PAUSE_GROWTH * self._pause))
            self._paused += 1
        self.drafts = drafts
