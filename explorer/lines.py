"""What the page is sent of a run: the lines of its trace, and two kinds of lines that no file keeps."""

from typing import Literal, NotRequired, TypedDict

from engine.trace import End, Entry, Header
from explorer.claims import PlainComparison


class HeaderLine(TypedDict):
    """The first line of a run; ``canopy_trace`` is the version of the format."""

    canopy_trace: int
    header: Header


class EndLine(TypedDict):
    """The last line of a run."""

    end: End


class StateLine(TypedDict):
    """How the run stands; ``message`` is a sentence for the reader."""

    state: Literal["queued", "running", "stopped", "done", "error"]
    run: str
    message: str


class Repetition(TypedDict):
    """Where a text begins to repeat itself: the token and the round that first wrote of it, both from 0."""

    token: int
    round: int
    words: str


class About(TypedDict):
    """What the server says about a run. ``lossless`` is null if the method is not known."""

    dtype_words: NotRequired[str]
    model_limit: NotRequired[str]
    outside: NotRequired[bool]
    lossless: NotRequired[bool | None]
    repetition: NotRequired[Repetition | None]
    comparison: NotRequired[PlainComparison]


class AboutLine(TypedDict):
    """What the server says about a run, or more of it."""

    about: About


StreamLine = HeaderLine | Entry | EndLine | StateLine | AboutLine
