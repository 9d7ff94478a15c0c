"""Where a tree pays: figures worked out by hand over three small rounds, and what a trace lacks."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.commands.program import verb_named, verb_parser
from engine.decoding.builders import best_first
from engine.decoding.tree import beginning
from engine.lab.anatomy import CODE, DIGITS, PROSE, Anatomy, anatomy, kinds_of, sentences
from engine.lab.redraft import CHAIN, MARGINALS, TRANSITIONS, WIDE, marginals_of
from engine.lab.statistics import Measured, mean_of, share_of
from engine.records import Acceptance, Lattice, Request, Round, Verification
from engine.trace import End, Entry, Header, Trace, load

TOKENS = np.asarray([[[10, 11, 12, 13]], [[20, 21, 22, 23]], [[30, 31, 32, 33]]], np.int32)
CHANCES = np.asarray([[[0.6, 0.3, 0.06, 0.04]], [[0.9, 0.05, 0.03, 0.02]], [[0.4, 0.3, 0.2, 0.1]]])
MARGINAL = Lattice(TOKENS, np.log(CHANCES).astype(np.float32), np.zeros_like(TOKENS))
NODES = 4  # the tree: 1 = 10, 2 = 10 20, 3 = 11, 4 = 11 20
# the text is 1 11 20 | 31 10 | 99 10 20 and then 77
ROUNDS = ((1, (0, 3, 4), 31), (31, (0, 1), 99), (99, (0, 1, 2), 77))


def trace_of(rounds: Sequence[tuple[int, tuple[int, ...], int]] = ROUNDS, lattice: Lattice = MARGINAL,
             texts: Sequence[str] = (), **header: object) -> Trace:
    """A trace of rounds (root, kept nodes, bonus), each with the best tree of ``NODES`` nodes of the lattice."""
    entries, start = [], 5
    for index, (root, keep, bonus) in enumerate(rounds):
        tree = best_first(lattice, root, NODES)
        blank = np.zeros(len(tree), np.float32)
        verified = Verification(np.zeros(len(tree), np.int32), *(blank,) * 5)
        made = Round(index, start, (lattice,), (tree,), tree, verified, Acceptance(np.asarray(keep, np.int32), bonus))
        entries.append(Entry(made, {}, 0.1 * index))
        start += len(keep)
    ids = [token for entry in entries for token in entry.round.committed.tolist()]
    pieces = dict(zip(ids, texts, strict=False))
    about = Header(Request((1, 2)), "a prompt", "a rig", ("one",), "a machine", "float32", 100, pieces, {})
    return Trace(replace(about, **header), tuple(entries), End("length", len(entries), 1.0))  # type: ignore[arg-type]


def counts(share: Measured) -> tuple[int, int]:
    return round(share.value * share.count), share.count


@pytest.fixture(scope="module")
def found() -> Anatomy:
    return anatomy([trace_of()])


def test_the_first_miss_has_its_rank_in_the_drafters_row(found: Anatomy) -> None:
    (drafter,) = found.drafters
    assert {where: counts(share) for where, share in drafter.misses.items()} == {
        "2nd": (1, 3), "in none of its 4": (2, 3)}


def test_the_spine_and_what_follows_a_sibling_are_counted_apart(found: Anatomy) -> None:
    (drafter,) = found.drafters
    assert [counts(share) for share in drafter.spine] == [(2, 3), (1, 2), (0, 1)]
    assert {rank: counts(share) for rank, share in drafter.after.items()} == {1: (1, 1)}
    assert drafter.like == pytest.approx(1 / 2)  # that one place has depth 2


def test_rows_earn_what_was_kept_of_them(found: Anatomy) -> None:
    assert {rank: counts(share) for rank, share in found.by_rank.items()} == {0: (4, 9), 1: (1, 3)}
    assert {depth: counts(share) for depth, share in found.by_depth.items()} == {1: (3, 6), 2: (2, 6)}
    assert {size: mean.value for size, mean in found.first_nodes.items()} == pytest.approx({1: 2 / 3, 2: 1, 4: 5 / 3})


def test_other_trees_of_the_same_drafts_walk_the_known_text(found: Anatomy) -> None:
    kept = {(row.kind, row.budget): row.accepted.value for row in found.redrafts}
    assert kept == pytest.approx({(CHAIN, 1): 2 / 3, (CHAIN, 3): 1, (CHAIN, 2): 1, (WIDE, 2): 1, (MARGINALS, 2): 1,
                                  (CHAIN, 4): 1, (WIDE, 4): 4 / 3, (MARGINALS, 4): 5 / 3})
    gain = next(row.over_chain for row in found.redrafts if (row.kind, row.budget) == (MARGINALS, 4))
    assert (gain.value, gain.low, gain.high, gain.count) == pytest.approx((2 / 3, 0, 2, 3))
    assert any("no tree by transitions" in sentence for sentence in found.lacking)
    words = " ".join(sentences(found)["trees"])
    assert "+33% of the chain's τ of 2.00" in words and "which may be none" in words


def test_a_recorded_tree_is_among_its_own_redrafts() -> None:
    found = anatomy([load(Path("assets/traces/arithmetic.jsonl.gz"))])
    again = next(row for row in found.redrafts if (row.kind, row.budget) == (MARGINALS, 16))
    assert found.accepted == again.accepted == found.first_nodes[16]


def test_a_round_that_the_text_ended_is_left_out() -> None:
    ended = (*ROUNDS, (77, (0, 1), 20))  # the bonus token is a child of the last kept row
    assert anatomy([trace_of(ended)]).rounds == 3


def test_marginals_of_transitions_are_their_sums() -> None:
    tokens = np.asarray([[[5, 6], [5, 6]], [[7, 8], [8, 7]]], np.int32)
    chances = np.asarray([[[0.75, 0.25], [0.5, 0.5]], [[0.8, 0.2], [0.6, 0.4]]])
    follow = np.asarray([[[0, 1], [0, 0]], [[0, 0], [0, 0]]], np.int32)
    alone = marginals_of(Lattice(tokens, np.log(chances).astype(np.float32), follow))
    assert alone.tokens[:, 0].tolist() == [[5, 6], [7, 8]]
    assert np.exp(alone.logprobs[:, 0]) == pytest.approx(np.asarray([[0.75, 0.25], [0.7, 0.3]]))


def test_a_drafter_with_transitions_gets_both_trees() -> None:
    found = anatomy([load(Path("assets/traces/smollm2-question.jsonl.gz"))])
    assert {row.kind for row in found.redrafts} == {CHAIN, WIDE, MARGINALS, TRANSITIONS} and not found.lacking


def test_an_engine_that_records_no_drafts_keeps_what_its_trees_show() -> None:
    whole = trace_of(engine="their loop")
    bare = replace(whole, entries=tuple(
        replace(entry, round=replace(entry.round, drafts=())) for entry in whole.entries))
    found = anatomy([bare])
    (drafter,) = found.drafters
    assert (drafter.name, drafter.misses, found.redrafts) == ("their loop", {}, ())
    assert [counts(share) for share in drafter.spine] == [(2, 3), (1, 2)]
    assert {rank: counts(share) for rank, share in drafter.after.items()} == {1: (1, 1)}
    assert {rank: counts(share) for rank, share in found.by_rank.items()} == {0: (4, 9), 1: (1, 3)}
    assert "do not hold what the drafter proposed" in found.lacking[0]


def test_missing_rounds_and_chunks_are_said() -> None:
    sampled = anatomy([trace_of(every=2)])
    assert sampled.redrafts == () and sampled.rounds == 3 and "Rounds are missing" in " ".join(sampled.lacking)
    assert anatomy([trace_of(chunked=True)]).lacking[0].startswith("No round drafted anything")


def test_the_kind_of_text_goes_by_the_line() -> None:
    texts = ["def f(x):\n", "    ", "return x\n", "The sum is nice.", "\n", "6 * 9", " = 54\n", "end"]
    trace = trace_of([(token, (0,), token + 1) for token in range(40, 48)], texts=texts)
    assert kinds_of(trace) == [CODE, CODE, CODE, PROSE, PROSE, DIGITS, DIGITS, PROSE]
    fenced = ["```\n", "words\n", "```\n", "words"]
    assert kinds_of(trace_of([(token, (0,), token + 1) for token in range(40, 44)], texts=fenced)) == [
        CODE, CODE, CODE, PROSE]
    assert kinds_of(trace_of()) == []


def test_intervals_hold_what_they_promise() -> None:
    share = share_of(8, 10)
    assert (share.low, share.high) == pytest.approx((0.4902, 0.9433), abs=1e-3)  # Wilson, from his formula
    assert share_of(0, 5).low == 0 < share_of(0, 5).high < 0.5
    mean = mean_of([1.0, 2.0, 3.0])
    assert mean.low < mean.value == 2 < mean.high and mean_of([1.0, 2.0, 3.0]) == mean


def test_the_command_prints_the_sentences_and_plain_values() -> None:
    verb = verb_named("anatomy")
    outcome = verb.run(verb_parser("anatomy").parse_args(["--trace", "assets/traces/arithmetic.jsonl.gz"]))
    assert json.loads(json.dumps(outcome.result))["rounds"] == 11
    assert "Here" not in outcome.text and "2nd in 55% (28% to 79% of 11, few)" in outcome.text


def test_a_loop_that_stops_drafting_is_a_sentence() -> None:
    whole = trace_of()
    last = whole.entries[-1].round
    bare = beginning(last.tree, 0)
    plain = [Entry(replace(last, index=3 + place, start=12 + place, drafts=(), tree=bare,
                           acceptance=Acceptance(np.zeros(1, np.int32), 5)), {}, 1.0) for place in range(16)]
    silent = replace(whole, entries=(*whole.entries, *plain))
    assert "last 16 rounds of a run drafted nothing" in anatomy([silent]).lacking[0]
    shorter = anatomy([replace(silent, entries=silent.entries[:-1])])
    assert not any("drafted nothing" in line for line in shorter.lacking)
