"""A run as it happened: a header, an entry per round, an end. As JSON lines it is a trace file.

A live engine yields the same three records as a recorded file, so a reader can tell the two apart only by the header's
``recorded`` date. Arrays are written as base64 of their bytes with dtype and shape, so a file reproduces every field of
every ``Round`` bit for bit. No pickle: a file from anywhere is only data, is read within bounds, and every field of it
is checked.
"""

from engine.recorder import as_bytes
from engine.trace.lines import (
    Block,
    End,
    Entry,
    Header,
    Line,
    MeasuredBudget,
    Piece,
    RunText,
    SharedPass,
    Trace,
    as_recording,
    committed_ids,
    estimate_bytes,
    join_tokens,
    known_tau,
    mean_length,
    pieces_of,
    shared_rounds,
    tau,
    token_text,
    trace_from_lines,
)
from engine.trace.reading import UNREADABLE, load, loads
from engine.trace.writing import dump, dumps, encode_line, encode_record

__all__ = [
    "UNREADABLE", "Block", "End", "Entry", "Header", "Line", "MeasuredBudget", "Piece", "RunText", "SharedPass",
    "Trace", "as_bytes", "as_recording", "committed_ids", "dump", "dumps", "encode_line", "encode_record",
    "estimate_bytes", "join_tokens", "known_tau", "load", "loads", "mean_length", "pieces_of", "shared_rounds", "tau",
    "token_text", "trace_from_lines"]
