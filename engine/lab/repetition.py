"""Finds where a text begins to repeat itself: a small model often falls into a loop, in which every drafter guesses
right.

A loop starts at the second copy of a stretch that is written at least four times in a row, if at least half of the rest
is such copies. White space and list markers at the start of a line are ignored, so a list of equal items is a loop, a
list of different items is not.
"""

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from engine.records import Round
from engine.trace import Piece

MIN_COPIES = 4  # three of a line are common in code and songs
MIN_LENGTH = 24  # tokens of all copies together
MIN_COPIED_SHARE = 0.5  # of the rest of the text
LINE_MARK = re.compile(r"[\d.):#*•-]*")


def repeats_from(pieces: Iterable[Piece]) -> int | None:
    """Return the index of the token at which a text begins to loop, or None."""
    words, tokens, line_begins = list[Piece](), list[int](), True
    for token, piece in enumerate(pieces):
        word = piece.strip() if isinstance(piece, str) else piece
        mark = line_begins and isinstance(word, str) and LINE_MARK.fullmatch(word)
        if word and not mark:
            words.append(word)
            tokens.append(token)
            line_begins = False
        if isinstance(piece, str) and "\n" in piece:
            line_begins = True
    start = first_copy(words)
    # a loop of figures and signs alone is a table; bytes of a character may be letters
    if start is None or not any(not isinstance(word, str) or any(map(str.isalpha, word)) for word in words[start:]):
        return None
    return tokens[start]


def first_copy(items: Sequence[Hashable]) -> int | None:
    """Return the index of the first item of a loop, as the module defines it, or None."""
    numbers = {item: number for number, item in enumerate(dict.fromkeys(items))}
    ids = np.asarray([numbers[item] for item in items], np.int32)
    copied = np.zeros(len(ids), np.bool_)
    for period in range(1, len(ids) // MIN_COPIES + 1):
        same = np.concatenate([[False], ids[period:] == ids[:-period], [False]])
        edges = np.flatnonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2] + period, edges[1::2] + period, strict=True):
            if end - begin + period >= max(MIN_COPIES * period, MIN_LENGTH):
                copied[begin:end] = True
    if not copied.any():
        return None
    start = int(copied.argmax())
    return start if copied[start:].mean() >= MIN_COPIED_SHARE else None


def repetition_in(rounds: Sequence[Round], pieces: Mapping[int, Piece]) -> int | None:
    """Return the index of the token at which the text of these rounds begins to loop, or None."""
    return repeats_from(pieces.get(token, f"⟨{token}⟩") for round_ in rounds for token in round_.committed.tolist())


def rounds_within(rounds: Sequence[Round], tokens: int) -> int:
    """Count the rounds that end within the first ``tokens`` of the text."""
    return sum(end <= tokens for end in accumulate(len(round_.acceptance.keep) for round_ in rounds))
