"""Estimates how much memory the lines of a run take, closely enough to bound what is remembered."""

from __future__ import annotations

from collections.abc import Mapping

from engine.trace.lines import Entry, Header, Line, Piece

ROUND_BYTES = 3_000  # of a round's records and small arrays, whatever they hold
NODE_BYTES = 16  # per node of a drafted tree
VERIFIED_BYTES = 24  # per verified node, an estimate: reading the verification may have to compute it first
CELL_BYTES = 12  # of a lattice
PIECE_BYTES = 100  # of a token's text besides its characters
TOKEN_BYTES = 40


def held_bytes(line: Line) -> int:
    """About how many bytes of memory a line takes while it is kept."""
    if isinstance(line, Entry):
        made = line.round
        nodes = sum(map(len, (made.tree, *made.candidates)))
        cells = sum(draft.tokens.size for draft in made.drafts)
        return (ROUND_BYTES + NODE_BYTES * nodes + VERIFIED_BYTES * len(made.tree) + CELL_BYTES * cells
                + _pieces_bytes(line.pieces))
    if isinstance(line, Header):
        said = len(line.prompt) + sum(len(text) for _, text in line.turns)
        return ROUND_BYTES + 4 * said + TOKEN_BYTES * len(line.request.prompt_ids) + _pieces_bytes(line.pieces)
    return 0


def _pieces_bytes(pieces: Mapping[int, Piece]) -> int:
    return sum(PIECE_BYTES + 4 * len(piece) for piece in pieces.values())
