"""From the lines of a run to the JSON that the stage draws. Pure, torch-free: the same run gives the same view.

Every token id of a round is named in its ``pieces`` or in those of an earlier line. Arrays travel as base64 with
dtype and shape; integers that fit into 16 bits take 16.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.decoding.methods import METHODS
from engine.lab.repetition import repetition_in, rounds_within
from engine.records import DraftTree, Lattice, Round
from engine.requests.prompts import says_outside
from engine.requests.rig_names import DTYPE_WORDS
from engine.trace import End, Entry, Header, Piece, SharedPass, Trace, encode_pieces, known_tau, pieces_of

View = dict[str, Any]

PIECE_ROUNDS = 256  # of a long run, in one answer at most
PIECE_BYTES = 2**20  # of its rounds as JSON; a single round may be larger
MAX_RANKS = 16  # of a drafter's guesses per row; the page has no room for more
MAX_INT16 = 2**15
MODEL_LIMITS = {"demo rig": "A model of 11 million parameters: often wrong.",
          "SmolLM2-135M-Instruct": "A model of 135 million parameters: often wrong."}  # of the rigs that ship


def array_view(array: NDArray[Any]) -> View:
    """An array as {dtype, shape, data}: ``<f4`` for floats, ``<i2`` or ``<i4`` for integers."""
    if array.dtype.kind == "f":
        kind = "<f4"
    else:
        kind = "<i2" if array.size == 0 or -MAX_INT16 <= array.min() <= array.max() < MAX_INT16 else "<i4"
    packed = np.ascontiguousarray(array, dtype=np.dtype(kind))
    return {"dtype": kind, "shape": list(array.shape), "data": base64.b64encode(packed.tobytes()).decode()}


def texts_view(texts: Mapping[int, Piece]) -> View:
    """What committed tokens add to the text if that is not their piece, by position; empty if there are none."""
    return {"texts": encode_pieces(texts)} if texts else {}


def tree_view(tree: DraftTree) -> View:
    """A draft tree's four arrays."""
    return {"tokens": array_view(tree.tokens), "parents": array_view(tree.parents),
            "logprobs": array_view(tree.logprobs), "drafters": array_view(tree.drafters)}


def draft_view(lattice: Lattice) -> View:
    """What a drafter proposed, the ``MAX_RANKS`` likeliest tokens of each row: tokens, logprobs and, if there are
    several rows, follow, (depth, rows, k)."""
    shown = lattice.narrowed(MAX_RANKS)
    view = {"tokens": array_view(shown.tokens), "logprobs": array_view(shown.logprobs)}
    return {**view, "follow": array_view(shown.follow)} if lattice.tokens.shape[1] > 1 else view


def rejected_trees_view(round_: Round) -> list[View]:
    """The drafted trees of which no node was verified, each with the number of its drafter, from 1."""
    verified = int(np.bitwise_or.reduce(round_.tree.drafters))
    return [{"drafter": drafter, **tree_view(candidate)} for drafter, candidate in enumerate(round_.candidates, start=1)
            if len(candidate) > 1 and not verified & 1 << (drafter - 1)]


def entry_view(entry: Entry) -> View:
    """One round as the stage takes it."""
    round_, trials = entry.round, entry.round.acceptance.trials
    verification = {name: array_view(getattr(round_.verification, name))
                    for name in ("choice", "logprobs", "entropy", "gap", "offered")}
    return {
        **shared_pass_view(entry.shared),
        "index": round_.index, "start": round_.start, "elapsed": round(entry.elapsed_seconds, 6),
        "pieces": encode_pieces(entry.pieces), **texts_view(entry.texts), "tree": tree_view(round_.tree),
        "rejected_trees": rejected_trees_view(round_),
        "scores": [None if isnan(score) else float(score) for score in round_.scores],
        "drafts": [draft_view(draft) for draft in round_.drafts],
        "verification": verification, "keep": round_.acceptance.keep.tolist(), "bonus": int(round_.acceptance.bonus),
        "trials": trials and {name: array_view(getattr(trials, name)) for name in ("nodes", "chances", "draws")},
        "seconds": {stage: round(seconds, 7) for stage, seconds in round_.seconds.items()},
    }


def shared_pass_view(shared_pass: SharedPass | None) -> View:
    """The runs that shared the round, as counts and shapes without any text. Empty if none are known."""
    if shared_pass is None:
        return {}
    return {"shared": {"runs": shared_pass.runs, "own": shared_pass.own, "blocks": [
        {"seat": block.seat, "parents": array_view(block.parents), "keep": block.keep.tolist(),
         "pools_rows": block.pools_rows} for block in shared_pass.blocks]}}


def header_view(header: Header) -> View:
    """What was asked, of which rig, on which machine, and whether it is a recording."""
    request, sampling = header.request, header.request.sampling
    return {
        "prompt": header.prompt, "pieces": encode_pieces(header.pieces), "rig": header.rig,
        "drafters": list(header.drafters), "hardware": header.hardware, "dtype": header.dtype,
        "dtype_words": ". ".join(filter(None, [DTYPE_WORDS.get(header.dtype, ""), header.precision])),
        "method": request.method,
        "budget": header.budget, "engine": header.engine, "split": request.split, "max_tokens": request.max_tokens,
        "temperature": sampling.temperature, "top_k": sampling.top_k, "top_p": sampling.top_p, "seed": sampling.seed,
        "pace": request.pace, "context_limit": header.context_limit, "title": header.title, "note": _note(header),
        "chunked": header.chunked, **({"recurrent_layers": header.recurrent_layers} if header.recurrent_layers else {}),
        "recorded": header.recorded, "prompt_tokens": len(request.prompt_ids), "turns": list(map(list, header.turns)),
        "model": "" if header.engine else MODEL_LIMITS.get(header.rig, ""), "outside": says_outside(header.note),
        "lossless": METHODS[request.method].lossless if request.method in METHODS else None,  # null: not known
    }


def end_view(end: End) -> View:
    """Why and when the text ended."""
    return {"reason": end.reason, "rounds": end.rounds, "seconds": end.seconds, "remark": _remark(end),
            "drafted": end.drafted, "accepted": end.accepted, **texts_view(end.texts)}


def _note(header: Header) -> str:
    """The recording's own note, and which engine's rounds it shows."""
    sample = f", one round in {header.every}" if header.every > 1 else ""
    return f"{header.note} Recorded in {header.engine}{sample}.".strip() if header.engine else header.note


def _remark(end: End) -> str:
    """What the file lacks, in a sentence; empty if it is complete."""
    counts = [f"{count} {'round was' if count == 1 else 'rounds were'} {what}" for count, what in (
        (end.dropped, "dropped, because the loop was faster than its recorder"), (end.refused, "refused as wrong"))
        if count]
    cut = ["the file is cut off there"] if end.reason == "cut" else []
    return " ".join([*(f"{words[0].upper()}{words[1:]}." for words in counts + cut), *filter(None, [end.said])])


def repetition_view(header: Header, rounds: Sequence[Round], named: Mapping[int, Piece]) -> View | None:
    """Where a text begins to repeat itself: {"token", "round": the first that wrote of it, both from 0, "words": a
    sentence}; None if it does not."""
    start = repetition_in(rounds, named)
    if start is None:
        return None
    begin = rounds_within(rounds, start)
    before, after = known_tau(header, rounds[:begin]), known_tau(header, rounds[begin:])
    lengths = f": τ {before:.2f} before, {after:.2f} after" if header.drafters and before and after else ""
    return {"token": start, "round": begin, "words": f"From token {start + 1} on the text repeats itself{lengths}."}


def blank_view(run: str = "", state: str = "empty", message: str = "") -> View:
    """A stage value without a run in it: nothing yet, waiting, or refused with a sentence."""
    return {"run": run, "state": state, "message": message, "header": None, "from": 0, "rounds": [], "end": None,
            "repetition": None}


def opened_view(view: View, header: Header) -> View:
    """The stage value of a run that has begun."""
    return {**view, "state": "running", "message": "", "header": header_view(header)}


def closed_view(view: View, end: End) -> View:
    """The stage value of a run that has ended."""
    return {**view, "state": "stopped" if end.reason in ("stopped", "cut") else "done", "end": end_view(end)}


def packed(view: View | None) -> str:
    """A stage value as one string: Gradio sends an object as edits of the previous one, and edits of a list whose
    beginning moves arrive wrong; a string is replaced whole.

    Its rounds, which may be made meanwhile, are written one by one: nothing else can happen while a value is written.
    """
    if view is None:
        return "null"
    rounds = ",".join(map(_json, view["rounds"]))
    return _json({**view, "rounds": []}).replace('"rounds":[]', f'"rounds":[{rounds}]', 1)


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def piece_view(run: str, trace: Trace, first: int = 0) -> View:
    """The stage value of a run with as many of its rounds, from ``first`` on, as one answer takes, and with their
    ``total``; the header comes with the first of them alone."""
    view, rounds, size = blank_view(run), list[View](), 0
    for entry in trace.entries[first:first + PIECE_ROUNDS]:
        of_round = entry_view(entry)
        size += len(json.dumps(of_round))
        if rounds and size > PIECE_BYTES:
            break
        rounds.append(of_round)
    begun = view if first else {**opened_view(view, trace.header), "repetition": repetition_view(
        trace.header, [entry.round for entry in trace.entries], pieces_of(trace))}
    return {**closed_view(begun, trace.end), "from": first, "rounds": rounds, "total": len(trace.entries)}
