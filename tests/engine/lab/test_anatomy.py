"""Where a tree pays: values worked out by hand over three small rounds, and the data that a trace lacks."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.commands.program import verb_named, verb_parser
from engine.decoding.builders import best_first
from engine.decoding.tree import prefix
from engine.lab.anatomy import anatomy, sentences
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, WIDE, marginals_of
from engine.lab.statistics import Measured
from engine.records import Acceptance, Lattice, Request, Round, Verification
from engine.trace import End, Entry, Header, Trace, load

TOKENS = np.asarray([[[10, 11, 12, 13]], [[20, 21, 22, 23]], [[30, 31, 32, 33]]], np.int32)
CHANCES = np.asarray([[[0.6, 0.3, 0.06, 0.04]], [[0.9, 0.05, 0.03, 0.02]], [[0.4, 0.3, 0.2, 0.1]]])
MARGINAL = Lattice(TOKENS, np.log(CHANCES).astype(np.float32), np.zeros_like(TOKENS))
NODES = 4  # the tokens on each node's path: node 1: 10, 2: 10 20, 3: 11, 4: 11 20
# the text is 1 11 20 | 31 10 | 99 10 20 and then 77
ROUNDS = ((1, (0, 3, 4), 31), (31, (0, 1), 99), (99, (0, 1, 2), 77))


def trace_of(rounds: Sequence[tuple[int, tuple[int, ...], int]] = ROUNDS, **header: object) -> Trace:
    """Return a trace of rounds (root, kept nodes, bonus), each with the lattice's best tree of ``NODES`` nodes."""
    entries, start = [], 5
    for index, (root, keep, bonus) in enumerate(rounds):
        tree = best_first(MARGINAL, root, NODES)
        blank = np.zeros(len(tree), np.float32)
        verification = Verification(np.zeros(len(tree), np.int32), *(blank,) * 5)
        round_ = Round(index, start, (MARGINAL,), (tree,), tree, verification,
                       Acceptance(np.asarray(keep, np.int32), bonus))
        entries.append(Entry(round_, {}, 0.1 * index))
        start += len(keep)
    about = Header(Request((1, 2)), "a prompt", "a rig", ("one",), "a machine", "float32", 100, {}, {})
    return Trace(replace(about, **header), tuple(entries), End("length", len(entries), 1.0))  # type: ignore[arg-type]


def counts(shares: Mapping[Any, Measured]) -> dict[Any, tuple[int, int]]:
    """Return the hits and cases of shares by name."""
    return {name: (round(share.value * share.count), share.count) for name, share in shares.items()}


def test_misses_and_acceptances_by_rank_are_counted() -> None:
    runs = anatomy([trace_of()])
    assert counts(runs.misses["one"]) == {"2nd": (1, 3), "in none of its 4": (2, 3)}
    assert counts(runs.by_rank) == {0: (4, 9), 1: (1, 3)} and runs.by_drafter == {}
    assert {size: mean.value for size, mean in runs.first_nodes.items()} == pytest.approx({1: 2 / 3, 2: 1, 4: 5 / 3})
    # a round that the text ended is left out: its bonus token is a child of the last kept row
    assert anatomy([trace_of((*ROUNDS, (77, (0, 1), 20)))]).rounds == runs.rounds == 3


def test_other_trees_of_the_same_drafts_are_replayed() -> None:
    runs = anatomy([trace_of()])
    assert {(row.kind, row.budget): row.accepted.value for row in runs.redrafts} == pytest.approx({
        (CHAIN, 1): 2 / 3, (CHAIN, 3): 1, (CHAIN, 2): 1, (WIDE, 2): 1, (MARGINALS, 2): 1,
        (CHAIN, 4): 1, (WIDE, 4): 4 / 3, (MARGINALS, 4): 5 / 3})
    gain = next(row.gain_over_chain for row in runs.redrafts if (row.kind, row.budget) == (MARGINALS, 4))
    assert (gain.value, gain.low, gain.high, gain.count) == pytest.approx((2 / 3, 0, 2, 3))
    assert any(TRANSITIONS in sentence for sentence in runs.omissions)
    assert "+33%" in " ".join(sentences(runs)["branching"])


def test_redrafts_of_recorded_runs_include_the_recorded_trees() -> None:
    marginal, transitional = (anatomy([load(Path(f"assets/traces/{name}.jsonl.gz"))])
                              for name in ("arithmetic", "smollm2-question"))
    again = next(row for row in marginal.redrafts if (row.kind, row.budget) == (MARGINALS, 16))
    assert again.accepted == marginal.first_nodes[16]
    assert {row.kind for row in transitional.redrafts} == {CHAIN, WIDE, MARGINALS, TRANSITIONS}
    assert not transitional.omissions


def test_marginals_sum_over_transitions() -> None:
    tokens = np.asarray([[[5, 6], [5, 6]], [[7, 8], [8, 7]]], np.int32)
    chances = np.asarray([[[0.75, 0.25], [0.5, 0.5]], [[0.8, 0.2], [0.6, 0.4]]])
    follow = np.asarray([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], np.int32)
    alone = marginals_of(Lattice(tokens, np.log(chances).astype(np.float32), follow))
    assert alone.tokens[:, 0].tolist() == [[5, 6], [7, 8]]
    assert np.exp(alone.logprobs[:, 0]) == pytest.approx(np.asarray([[0.75, 0.25], [0.7, 0.3]]))


def test_a_trace_without_drafts_still_has_acceptance_by_rank() -> None:
    trace = trace_of(engine="their loop")
    bare = anatomy([replace(trace, entries=tuple(
        replace(entry, round=replace(entry.round, drafts=())) for entry in trace.entries))])
    assert (bare.misses, bare.redrafts) == ({}, ()) and counts(bare.by_rank) == {0: (4, 9), 1: (1, 3)}
    assert bare.omissions


def test_missing_rounds_chunks_and_pauses_in_drafting_are_reported() -> None:
    whole = trace_of()
    for lossy in (trace_of(every=2), replace(whole, entries=(whole.entries[0], whole.entries[2]))):
        runs = anatomy([lossy])
        assert runs.redrafts == () and runs.rounds > 1 and set(runs.omissions) - set(anatomy([whole]).omissions)
    assert set(anatomy([trace_of(chunked=True)]).omissions) - set(anatomy([whole]).omissions)
    last = whole.entries[-1].round
    bare = replace(last, drafts=(), tree=prefix(last.tree, 0), acceptance=Acceptance(np.zeros(1, np.int32), 5))
    plain = [Entry(replace(bare, index=3 + more, start=12 + more), {}, 1.0) for more in range(16)]
    silent, shorter = (replace(whole, entries=(*whole.entries, *plain[:count])) for count in (16, 15))
    assert "16" in anatomy([silent]).omissions[0] and not any("15" in line for line in anatomy([shorter]).omissions)


def test_the_command_prints_the_sentences_and_plain_values() -> None:
    verb = verb_named("anatomy")
    outcome = verb.run(verb_parser("anatomy").parse_args(["--trace", "assets/traces/arithmetic.jsonl.gz"]))
    assert json.loads(json.dumps(outcome.result))["rounds"] == 11
    assert "55% (28% to 79%)" in outcome.text
