"""The lab's tab of an attached server: its counters over time, and its speed with several requests at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from engine.errors import RequestError
from engine.lab.paste import flags_of_server
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.server import (
    ConcurrencyLevel,
    Server,
    Traffic,
    TrafficLook,
    Watch,
    by_place,
    measured,
    silence,
    traffic,
)
from explorer.attached import server_of
from explorer.lab.anatomy import flags_view
from explorer.lab.style import ACCENT, INK, axis, drawn, paper
from explorer.lab.sweep_form import PromptSets
from explorer.rig import AnsweringRig
from explorer.run_queue import Job, Jobs
from explorer.view import View

MOST_PROMPTS = 32  # of a set


class ServerTab:
    """The functions that the browser may call about the attached server; no other server is asked."""

    def __init__(self, rig: AnsweringRig, sets: PromptSets, jobs: Jobs) -> None:
        self._rig = rig
        self._sets = sets
        self._jobs = jobs
        self._watch: Watch | None = None

    @property
    def offered(self) -> bool:
        """Whether a server answers."""
        return server_of(self._rig.source) is not None

    def look(self, _: Mapping[str, Any]) -> View:
        """Its counters now and before: {"about", "traffic", "places": figures or None, "silence": that it drafts
        nothing, empty where it does, "flags": to paste, from its counts}."""
        server = self._server()
        if self._watch is None or self._watch.server is not server:
            self._watch = Watch(server)
        looks = self._watch.look()
        shares, drafts = by_place(looks), looks[-1].counts.drafts
        return {"about": _about(server, looks), "traffic": traffic_figure(traffic(looks)),
                "places": places_figure(shares), "silence": silence(looks),
                "flags": flags_view(flags_of_server(shares, int(drafts or 0)))}

    def load(self, wanted: Mapping[str, Any]) -> View:
        """Begin to measure the curve over the prompts of {"set"}: {"job"}, which ends after the requests in hand."""
        server = self._server()
        prompts = [prompt.text for prompt in self._sets.named(str(wanted.get("set")))[:MOST_PROMPTS]]
        return {"job": self._jobs.start(lambda job: self._measured(server, prompts, job))}

    def _server(self) -> Server:
        server = server_of(self._rig.source)
        if server is None:
            raise RequestError("No server is attached now; choose one as the rig first.")
        return server

    def _measured(self, server: Server, prompts: Sequence[str], job: Job) -> View:
        levels: list[ConcurrencyLevel] = []
        job.message = "One request, which is not counted …"
        for level in measured(server, prompts, job.stop):
            levels.append(level)
            done = len(levels) / len(TRIED_CONCURRENCY)
            job.message, job.share = f"{level.concurrency} at once: {level.tokens_per_second:.0f} tokens/s.", done
        return {"load": load_figure(levels), "about": _remarks(levels)}


def _about(server: Server, looks: Sequence[TrafficLook]) -> str:
    counts = looks[-1].counts
    running = "" if counts.running is None else f" {counts.running:.0f} requests run now."
    tau = 1 + counts.accepted / counts.drafts if counts.drafts and counts.accepted is not None else counts.length
    since = "" if tau is None else f" τ since it began: {tau:.2f}."
    return f"{server.title}, {server.model}: all of its requests.{running}{since}"


def _remarks(levels: Sequence[ConcurrencyLevel]) -> str:
    return " ".join(f"{level.failed} of the requests {level.concurrency} at once failed: {level.failure}"
                    for level in levels if level.failed)


def _right(title: str) -> dict[str, Any]:
    """A second axis with ticks of its own."""
    return axis(title, overlaying="y", side="right", rangemode="tozero", showgrid=False, tickmode="auto", nticks=6)


def traffic_figure(looks: Sequence[Traffic]) -> View | None:
    """τ and tokens a second against time; None before the second look."""
    if not looks:
        return None
    x = [look.seconds for look in looks]
    figure = paper(xaxis=axis("seconds since this tab was first opened"), yaxis=axis("tokens/s", rangemode="tozero"),
                   yaxis2=_right("τ"))
    figure.add_trace(go.Scatter(x=x, y=[look.tokens_per_second for look in looks], mode="lines", name="tokens/s",
                                line={"color": INK, "width": 2}, hovertemplate="%{y:.0f} tokens/s<extra></extra>"))
    figure.add_trace(go.Scatter(x=x, y=[look.tau for look in looks], mode="lines+markers", name="τ", yaxis="y2",
                                line={"color": ACCENT, "width": 2}, hovertemplate="τ %{y:.2f}<extra></extra>"))
    last = next((look.tau for look in reversed(looks) if look.tau is not None), None)
    return drawn(figure, "No drafts yet." if last is None else f"τ was {last:.2f} when it last drafted.")


def places_figure(shares: Sequence[float]) -> View | None:
    """The share accepted by place in the draft; None where the server does not count it."""
    if not shares:
        return None
    figure = paper(xaxis=axis("place in the draft", dtick=1), yaxis=axis("accepted, %", range=[0, 100]))
    figure.add_trace(go.Bar(x=list(range(1, len(shares) + 1)), y=[100 * share for share in shares],
                            marker={"color": "var(--drafter1)"}, name="accepted",
                            hovertemplate="place %{x}: accepted in %{y:.0f} % of the drafts<extra></extra>"))
    return drawn(figure, f"The first drafted token is accepted in {shares[0]:.0%} of the drafts, the last in "
                         f"{shares[-1]:.0%}.")


def load_figure(levels: Sequence[ConcurrencyLevel]) -> View | None:
    """Tokens a second of all requests together, and the median latency, against requests at once."""
    answered = [level for level in levels if level.latencies]
    if not answered:
        return None
    names = [str(level.concurrency) for level in answered]
    figure = paper(xaxis=axis("requests at once", type="category"), yaxis=axis("tokens/s, all", rangemode="tozero"),
                   yaxis2=_right("seconds a request"))
    figure.add_trace(go.Scatter(x=names, y=[level.tokens_per_second for level in answered], mode="lines+markers",
                                name="tokens/s, all requests", line={"color": INK, "width": 2.2},
                                hovertemplate="%{x} at once: %{y:.0f} tokens/s<extra></extra>"))
    figure.add_trace(go.Scatter(x=names, y=[level.latency for level in answered], mode="lines+markers", yaxis="y2",
                                name="median seconds a request", line={"color": ACCENT, "width": 2, "dash": "dash"},
                                hovertemplate="%{x} at once: %{y:.2f} s a request<extra></extra>"))
    last = answered[-1]
    return drawn(figure, f"{answered[0].tokens_per_second:.0f} tokens per second for one request at once, "
                         f"{last.tokens_per_second:.0f} for {last.concurrency}.")
