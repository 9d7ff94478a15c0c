"""The errors that a person may meet, each with one sentence.

    CanopyError
    ├── RequestError       the request cannot be served as asked (prompt, budget, method, numbers)
    ├── RigError           a checkpoint or a set of them cannot be used (missing, truncated, mismatched)
    ├── TraceError         a trace file is not one, is of another version, or is cut off
    ├── FileError          a file cannot be written where it was asked for
    ├── ResultsError       a results file of the lab is not one, is in use, or cannot be written
    ├── ServerError        an attached server does not answer, or not as it should
    ├── PresetError        a preset that the page would offer cannot be run
    └── CancellationError  the person cancelled; nothing went wrong

A message says what is wrong, what was seen, and what is allowed. The page and the command line print it as it is.
"""

from __future__ import annotations


class CanopyError(Exception):
    """A failure whose message is a sentence for the user."""


class RequestError(CanopyError):
    """The request cannot be served as asked."""


class RigError(CanopyError):
    """A checkpoint, or a set of checkpoints, cannot be used."""


class TraceError(CanopyError):
    """A file is not a usable trace."""


class FileError(CanopyError):
    """A file cannot be written."""


class ResultsError(CanopyError):
    """A results file cannot be used or written."""


class ServerError(CanopyError):
    """An attached server does not answer, or not as it should."""


class PresetError(CanopyError):
    """A file of presets is not one, or a preset in it cannot be run."""


class CancellationError(CanopyError):
    """The person cancelled."""
