"""A request that is turned away: its status and the sentence that says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.responses import JSONResponse, PlainTextResponse, Response


@dataclass
class Refusal(Exception):  # noqa: N818 - an answer on its way
    """Raised where a check fails, caught where the answer is sent."""

    status: int
    sentence: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self, programs: bool) -> Response:
        """As the page's own functions answer, {"detail": …}, or as text for a person who typed an address."""
        if programs:
            return JSONResponse({"detail": self.sentence}, self.status, dict(self.headers))
        return PlainTextResponse(self.sentence + "\n", self.status, dict(self.headers))
