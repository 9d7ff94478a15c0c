"""The errors that a person may meet, each with one sentence.

Every message names the problem, the value and the allowed values. The page and the command line print it unchanged.
"""


class CanopyError(Exception):
    """A failure whose message is a sentence for the user."""


class RequestError(CanopyError):
    """The request cannot be served as asked: its prompt, budget, method or numbers."""


class RigError(CanopyError):
    """A checkpoint, or a set of them, cannot be used: it is missing, truncated, or does not fit."""


class TraceError(CanopyError):
    """A file is not a trace, is of another version, or is cut off."""


class FileError(CanopyError):
    """A file cannot be written to the requested path."""


class ResultsError(CanopyError):
    """A results file of the lab is not one, is in use, or cannot be written."""


class ServerError(CanopyError):
    """An attached server does not answer, or not as it should."""


class PresetError(CanopyError):
    """A file of presets is not one, or a preset in it cannot be run."""


class CancellationError(CanopyError):
    """The person cancelled; nothing went wrong."""
