"""From token ids to text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.trace.lines import Piece, Trace


def pieces_of(trace: Trace) -> dict[int, Piece]:
    """The text of every token that the trace names."""
    named = dict(trace.header.pieces)
    for entry in trace.entries:
        named |= entry.pieces
    return named


def readable(named: Mapping[int, Piece], token: int) -> str:
    """A token's text; bytes that are no whole character by themselves as ⟨e2⟩."""
    piece = named.get(token, f"⟨{token}⟩")
    return piece if isinstance(piece, str) else "".join(f"⟨{byte:02x}⟩" for byte in piece)


def joined(named: Mapping[int, Piece], token_ids: Iterable[int]) -> str:
    """The tokens as one text, characters that span several tokens put together."""
    pieces = [named.get(token, f"⟨{token}⟩") for token in token_ids]
    return b"".join(map(as_bytes, pieces)).decode("utf8", "replace")


def as_bytes(piece: Piece) -> bytes:
    """What a token adds to the text."""
    return piece.encode() if isinstance(piece, str) else bytes(piece)
