"""The forms in which a run is exported: a trace file, a table of its rounds, a tree for graph tools, a replay page."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas

from engine.decoding.tree import depths
from engine.errors import RequestError
from engine.records import STAGES, Round
from engine.trace import Piece, Trace, dumps, pieces_of, token_text
from explorer.bundle import replay_page
from explorer.runs import RunLog


@dataclass(frozen=True)
class Download:
    """A file for download: its name, its media type, its bytes."""

    name: str
    media: str
    data: bytes

    def as_json(self) -> bytes:
        """Return the file for the browser: {"name", "media", "data": the bytes as base64}."""
        about = json.dumps({"name": self.name, "media": self.media}).encode()
        return about.removesuffix(b"}") + b', "data": "' + base64.b64encode(self.data) + b'"}'


def rounds_table(trace: Trace) -> pandas.DataFrame:
    """Make a row per round: what was verified and kept, the bonus token, μ per drafter, milliseconds per stage."""
    pieces, rows = pieces_of(trace), list[dict[str, object]]()
    for entry in trace.entries:
        round_ = entry.round
        rows.append({
            "round": round_.index + 1, "elapsed_seconds": entry.elapsed_seconds, "cache_length_before": round_.start,
            "rows_verified": len(round_.tree), "tokens_kept": len(round_.acceptance.keep),
            "keep_indices": " ".join(map(str, round_.acceptance.keep.tolist())),
            "text": "".join(token_text(pieces, token) for token in round_.committed.tolist()),
            "bonus": token_text(pieces, round_.acceptance.bonus),
            **{f"mean_confidence_drafter_{drafter}": score for drafter, score in enumerate(round_.scores, start=1)},
            **{f"{stage}_milliseconds": 1000 * round_.seconds.get(stage, 0.0) for stage in STAGES}})
    return pandas.DataFrame(rows)


def graphml(round_: Round, pieces: Mapping[int, Piece]) -> bytes:
    """Encode a round's draft tree, with each node's figures as attributes; edges lead from parent to child."""
    import networkx  # noqa: PLC0415 - at first use: importing it at the start would delay the page by 0.17 s

    def text(token: int) -> str:
        """Return a token as XML allows it: other control characters than tab and newline as ⟨1b⟩."""
        return "".join(sign if sign in "\t\n" or ord(sign) >= 32 else f"⟨{ord(sign):02x}⟩"
                       for sign in token_text(pieces, token))

    graph = networkx.DiGraph(round=round_.index + 1)
    kept, depth = set(round_.acceptance.keep.tolist()), depths(round_.tree.parents)
    for node, token in enumerate(round_.tree.tokens.tolist()):
        graph.add_node(
            node, token_id=token, text=text(token), depth=int(depth[node]),
            probability=float(np.exp(round_.tree.logprobs[node])), drafters=int(round_.tree.drafters[node]),
            target_probability=float(np.exp(round_.verification.offered[node])), kept=node in kept,
            target_choice=text(int(round_.verification.choice[node])))
        if node:
            graph.add_edge(int(round_.tree.parents[node]), node)
    return "\n".join(networkx.generate_graphml(graph, named_key_ids=True)).encode()


EXPORTS = ("trace", "rounds", "tree", "replay")


def export(kind: str, run: RunLog, number: int, view: str = "") -> Download:
    """Export a finished run in one of the forms ``EXPORTS``; ``number`` is the round, from 0, of a tree, ``view`` the
    address of what a replay page shows first."""
    if kind not in EXPORTS:
        raise RequestError(f"There is no export {kind!r}; choose one of {', '.join(EXPORTS)}.")
    if (trace := run.trace()) is None:
        raise RequestError("The run has no round, so there is nothing to export.")
    if kind == "trace":
        return Download(f"{run.id}.jsonl.gz", "application/gzip", gzip.compress(dumps(trace), mtime=0))
    if kind == "rounds":
        return Download(f"{run.id}-rounds.csv", "text/csv", rounds_table(trace).to_csv(index=False).encode())
    if kind == "replay":
        title = trace.header.title or trace.header.prompt[:60]
        return Download(f"{run.id}.html", "text/html", replay_page(title, run.all_lines(), view).encode())
    if not 0 <= number < len(trace.entries):
        raise RequestError(f"There is no round {number + 1}; this run has {len(trace.entries)}.")
    tree = graphml(trace.entries[number].round, pieces_of(trace))
    return Download(f"{run.id}-round-{number + 1}.graphml", "application/xml", tree)
