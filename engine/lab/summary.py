"""The table of a sweep: per setting the median τ, tokens/s and speed-up over the prompts, and which is fastest.

A prompt counts once: its value is the median over its repeats, because repeats tell of the machine's noise and
prompts of what is being asked. Speed-up compares with the baseline on the same prompt, in the same repeat, on the
same hardware, so that what slows both cancels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from engine.acceptance_length import mean_length
from engine.lab.difference import first_difference
from engine.lab.settings import Measured, Reading, Setting
from engine.lab.statistics import Estimate, estimate
from engine.methods import METHODS

Run = tuple[int, Reading, Reading | None]  # prompt, reading, the baseline's beside it


@dataclass(frozen=True)
class Row:
    """One setting. ``tau`` and the others are over prompts; ``pooled_tau`` is all tokens over all rounds; ``runs``
    were measured and ``failed`` could not be; of ``compared`` runs ``same_text`` wrote the baseline's text."""

    setting: Setting
    runs: int
    failed: int
    tokens: int
    rounds: int
    pooled_tau: float
    tau: Estimate
    tokens_per_second: Estimate
    speedup: Estimate | None
    same_text: int
    compared: int


@dataclass(frozen=True)
class Summary:
    """``rows`` in the order of the settings given; ``best`` has the largest median tokens/s of those that are
    lossless, the smaller budget among equals."""

    rows: tuple[Row, ...]
    best: Row | None


def summarise(settings: Iterable[Setting], measured: Sequence[Measured]) -> Summary:
    """The table of what was measured so far; a setting without a run has no row."""
    beside = baselines(measured)
    runs: dict[Setting, list[Run]] = defaultdict(list)
    failed: dict[Setting, int] = defaultdict(int)
    for found in measured:
        if found.reading is None or not found.reading.lengths:
            failed[found.cell.setting] += 1
        else:
            runs[found.cell.setting].append((found.cell.prompt, found.reading, beside.get(_beside(found))))
    rows = tuple(_row(setting, runs[setting], failed[setting]) for setting in settings if runs[setting])
    sound = [row for row in rows if METHODS[row.setting.method].lossless]
    return Summary(rows, max(sound, key=lambda row: (row.tokens_per_second.median, -row.setting.budget), default=None))


@dataclass(frozen=True)
class Beside:
    """What two runs have to share to be compared."""

    baseline: Setting
    prompt: int
    repeat: int
    hardware: str


def _beside(found: Measured) -> Beside:
    cell = found.cell
    return Beside(cell.setting.baseline, cell.prompt, cell.repeat, found.hardware)


def baselines(measured: Sequence[Measured]) -> Mapping[Beside, Reading]:
    """The baseline's readings by what they may be compared with."""
    return {_beside(found): found.reading for found in measured
            if found.reading and found.reading.lengths and found.cell.setting == found.cell.setting.baseline}


def _row(setting: Setting, runs: Sequence[Run], failed: int) -> Row:
    pairs = [(prompt, reading, baseline) for prompt, reading, baseline in runs if baseline]
    speedups = [(prompt, reading.tokens_per_second / baseline.tokens_per_second) for prompt, reading, baseline in pairs]
    tokens, rounds = (sum(counts) for counts in zip(
        *((len(reading.token_ids), reading.rounds) for _, reading, _ in runs), strict=True))
    return Row(
        setting, len(runs), failed, tokens, rounds, mean_length(tokens, rounds),
        _over_prompts([(prompt, reading.tau) for prompt, reading, _ in runs]),
        _over_prompts([(prompt, reading.tokens_per_second) for prompt, reading, _ in runs]),
        _over_prompts(speedups) if speedups else None,
        sum(first_difference(reading, baseline) is None for _, reading, baseline in pairs), len(pairs))


def _over_prompts(values: Sequence[tuple[int, float]]) -> Estimate:
    by_prompt: dict[int, list[float]] = defaultdict(list)
    for prompt, value in values:
        by_prompt[prompt].append(value)
    return estimate([median(each) for each in by_prompt.values()])
