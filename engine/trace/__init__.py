"""A run as it happened: a header, an entry per round, an end. As JSON lines it is a trace file.

A live engine yields the same three records as a recorded file, so a reader can tell the two apart only by the header's
``recorded`` date. Arrays are written as base64 of their bytes with dtype and shape, so a file reproduces every field of
every ``Round`` bit for bit. No pickle: a file from anywhere is only data, is read within bounds, and every
field of it is checked (``checks.py``).
"""

from engine.trace.lines import (
    Block,
    End,
    Entry,
    Header,
    Line,
    Piece,
    SharedPass,
    Trace,
    committed_ids,
    gather,
    known_tau,
    mean_length,
    recorded,
    shared_rounds,
    tau,
)
from engine.trace.reading import UNREADABLE, load, loads
from engine.trace.writing import VERSION, dump, dumps, encode_line, encode_record, packed

__all__ = [
    "UNREADABLE", "VERSION", "Block", "SharedPass", "End", "Entry", "Header", "Line", "Piece", "Trace", "committed_ids",
    "dump", "dumps", "encode_line", "encode_record", "gather", "known_tau", "load", "loads", "mean_length",
    "packed", "recorded", "shared_rounds", "tau"]
