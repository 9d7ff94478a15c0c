"""A what-if on a rig: from a text that the target wrote, every method's forecast at every budget."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch

from engine.budget.cost import CostCurve
from engine.decoding.budget_policy import MAX_AUTO_NODES
from engine.decoding.methods import METHODS, method_named
from engine.decoding.options import check_option
from engine.decoding.protocols import Drafter
from engine.drafters.dflash.drafter import DFlashDrafter, TextFeatures
from engine.errors import RequestError
from engine.lab.replay import Forecast, KnownText, WhatIf, forecasts, gain, read_known_text
from engine.lab.settings import Setting
from engine.lab.sweeping import Progress
from engine.records import Proposals, Request
from engine.requests.limits import TRIED_BUDGETS
from engine.serving.rig import Rig
from engine.trace import Trace, committed_ids

MAX_DEPARTURES = 0.1  # of the tokens may differ from the target's choices; with more, another model wrote the text


@dataclass(frozen=True)
class RunTokens:
    """A text and the request that it answers. Methods with as many drafters as its run use the same ones."""

    prompt: str
    request: Request
    token_ids: tuple[int, ...]
    drafters: tuple[str, ...] = ()

    @property
    def context(self) -> int:
        """The prefix length in the middle of the text, in tokens."""
        return len(self.request.prompt_ids) + len(self.token_ids) // 2


def text_of_run(trace: Trace) -> RunTokens:
    """Return the text of a recorded or finished run."""
    header = trace.header
    token_ids = tuple(committed_ids(trace.rounds))
    return RunTokens(header.prompt, header.request, token_ids, header.drafters)


def what_if(rig: Rig, text: RunTokens, budgets: Sequence[int] = TRIED_BUDGETS, methods: Sequence[str] = (),
            curve: CostCurve | None = None, progress: Progress | None = None) -> WhatIf:
    """Forecast these methods (by default all that can be replayed) at every budget.

    With a cost curve, speeds are predicted and ``auto`` is among the budgets. Waits until it has the rig to itself.
    RequestError if the text is empty or not this target's, or if a method cannot be replayed.
    """
    progress = progress or Progress()
    budgets = sorted({check_option("budget", budget) for budget in budgets})
    if not budgets:
        raise RequestError("No node budget was given; write at least one, as in: 16, 32, 64.")
    _check_text(rig, text)
    with rig.exclusive("while other budgets were replayed"):
        began, max_nodes = perf_counter(), max(*budgets, MAX_AUTO_NODES)
        settings = [Setting(method, max(budgets), split, drafters, text.request.sampling.temperature)
                    for method, drafters in _drafters(rig, text, methods).items() for split in METHODS[method].splits]
        progress.expect(len(settings) + 1)
        progress.begin("The target reads the text again.")
        again = read_known_text(text.request, text.token_ids, rig.target)
        departures = int((again.choice != np.asarray(text.token_ids)).sum())
        if departures > max(1, MAX_DEPARTURES * len(text.token_ids)):
            raise RequestError(
                f"The target would have chosen another token at {departures} of {len(text.token_ids)} places: the text "
                "was written by other weights or under other sampling settings, so open the rig that wrote it.")
        start, token_ids = len(text.request.prompt_ids), np.asarray(text.token_ids, np.int32)
        all_ids = np.asarray([*text.request.prompt_ids, *token_ids], np.int32)
        read = TextFeatures(all_ids, torch.cat(again.features), start)
        drafters = {name: drafter for setting in settings
                    for name, drafter in rig.drafters_for(setting.method, setting.drafters).items()}
        proposed = {name: dict(enumerate(_proposals(name, drafter, read, max_nodes)))
                    for name, drafter in drafters.items()}
        known_text = KnownText(token_ids, start, rig.target.positions_for(start), proposed, max_nodes)
        done: list[Forecast] = []
        for setting in settings:
            progress.begin(f"The method {setting.method} at every budget.")
            done += forecasts(setting, budgets, known_text, curve)
        gains = tuple(gain(setting, known_text) for setting in settings if setting.drafters)
    return WhatIf(text.prompt, rig.name, rig.target.hardware, rig.target.dtype, text.request.sampling, known_text.start,
                  len(text.token_ids), departures, tuple(done), gains, curve, perf_counter() - began)


def _check_text(rig: Rig, text: RunTokens) -> None:
    """Raise RequestError for a text that the rig's target cannot have written."""
    if not text.token_ids:
        raise RequestError("The run wrote no token, so there is nothing to replay; choose one that has text.")
    vocabulary, positions = rig.target.config.vocab_size, rig.target.context_limit
    token, length = max(*text.request.prompt_ids, *text.token_ids), len(text.request.prompt_ids) + len(text.token_ids)
    if token >= vocabulary or length > positions:
        raise RequestError(
            f"The text was not written by {rig.name}: it has token {token} and {length} positions, where the target "
            f"knows {vocabulary} tokens and {positions} positions.")


def _drafters(rig: Rig, text: RunTokens, methods: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the drafters' names by method; without ``methods``, of all that can be replayed on this rig."""
    method_of_run = method_named(text.request.method)
    chosen = {}
    for method in methods or [name for name, row in METHODS.items() if row.replayable]:
        row = method_named(method)
        if not row.replayable:
            raise RequestError(
                f"The method {method} cannot be replayed: a what-if needs a method that follows the text (walk) over "
                f"drafters whose proposals do not depend on the budget (block diffusion), not "
                f"{row.accept.__name__} over {row.family}.")
        if not methods and row.drafter_count not in (0, *rig.card.defaults):
            continue
        same_kind = (row.family, row.drafter_count) == (method_of_run.family, method_of_run.drafter_count)
        drafters = rig.drafters_for(method, text.drafters if same_kind else ())
        if methods or all(isinstance(drafter, DFlashDrafter) for drafter in drafters.values()):
            chosen[method] = tuple(drafters)
    return chosen


def _proposals(name: str, drafter: Drafter, text: TextFeatures, width: int) -> Proposals:
    if not isinstance(drafter, DFlashDrafter):
        raise RequestError(f"The drafter {name} is a {type(drafter).__name__}, whose proposals depend on the budget; a "
                           "what-if needs one that proposes the same whatever the budget, such as a block-diffusion "
                           "drafter.")
    return drafter.proposals(text, width)
