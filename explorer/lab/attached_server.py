"""The tab of an attached server: its counters over time, and its speed with several requests at once."""

from collections.abc import Sequence
from typing import TypedDict

from engine.lab.flags import Flags, flags_of_server
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.counters import CounterHistory, by_depth, no_drafts_warning, traffic
from engine.servers.load import ConcurrencyLevel, measure
from engine.servers.server import Server
from explorer.jobs import Job
from explorer.lab.style import ACCENT, INK, Figure, Part, axis, curve, figure


class CountersView(TypedDict):
    """A server's counters now and before. ``silence``: a warning that it drafts nothing; ``flags``: to be pasted."""

    about: str
    traffic: Figure | None
    places: Figure | None
    silence: str
    flags: list[Flags]


class ServerSpeed(TypedDict):
    """An attached server's speed by requests at once, and which of them failed."""

    figure: Figure | None
    about: str


def counters_view(history: CounterHistory) -> CountersView:
    """Return a server's counters over time. Traffic needs two samples."""
    samples, server = history.sample(), history.server
    counts, shares, spans = samples[-1], by_depth(samples), traffic(samples)
    running = "" if counts.running is None else f" {counts.running:.0f} requests run now."
    since = "" if counts.tau is None else f" τ since it began: {counts.tau:.2f}."
    last = next((span.tau for span in reversed(spans) if span.tau is not None), None)
    drawn = _on_two_axes(
        "No drafts yet." if last is None else f"τ was {last:.2f} when it last drafted.",
        axis("seconds since this tab was first opened"), [span.seconds for span in spans],
        ("tokens/s", [span.generated for span in spans], "%{y:.0f} tokens/s"),
        ("τ", [span.tau for span in spans], "τ %{y:.2f}"))
    bars = {"type": "bar", "x": list(range(1, len(shares) + 1)), "y": [100 * share for share in shares],
            "name": "accepted", "marker": {"color": "var(--drafter1)"},
            "hovertemplate": "place %{x}: accepted in %{y:.0f} % of the drafts<extra></extra>"}
    places = figure([bars], f"The first drafted token is accepted in {shares[0]:.0%} of the drafts, the last in "
                            f"{shares[-1]:.0%}.", xaxis=axis("place in the draft", dtick=1),
                    yaxis=axis("accepted, %", range=[0, 100])) if shares else None
    return {"about": f"{server.title}, {server.model}: all of its requests.{running}{since}",
            "traffic": drawn if spans else None, "places": places, "silence": no_drafts_warning(samples),
            "flags": list(flags_of_server(shares, int(counts.drafts or 0)))}


def measure_concurrency(server: Server, prompts: Sequence[str], job: Job) -> ServerSpeed:
    """Measure its speed by requests at once; the job holds its progress."""
    levels: list[ConcurrencyLevel] = []
    job.message = "One request, which is not counted …"
    for level in measure(server, prompts, job.stop):
        levels.append(level)
        job.message = f"{level.concurrency} at once: {level.tokens_per_second:.0f} tokens/s."
        job.share = len(levels) / len(TRIED_CONCURRENCY)
    failed = [f"{level.failed} of the requests {level.concurrency} at once failed: {level.failure}"
              for level in levels if level.failed]
    answered = [level for level in levels if level.latency is not None]
    if not answered:
        return {"figure": None, "about": " ".join(failed)}
    first, last = answered[0], answered[-1]
    drawn = _on_two_axes(
        f"{first.tokens_per_second:.0f} tokens per second for one request at once, {last.tokens_per_second:.0f} for "
        f"{last.concurrency}.",
        axis("requests at once", type="category"), [str(level.concurrency) for level in answered],
        ("tokens/s, all", [level.tokens_per_second for level in answered], "%{x} at once: %{y:.0f} tokens/s"),
        ("median seconds a request", [level.latency for level in answered], "%{x} at once: %{y:.2f} s a request"))
    return {"figure": drawn, "about": " ".join(failed)}


def _on_two_axes(summary: str, below: Part, x: Sequence[object],
                 *curves: tuple[str, Sequence[float | None], str]) -> Figure:
    """Draw two curves, each a name, values and tooltip; the second has its axis on the right."""
    (left, left_values, left_hover), (right, right_values, right_hover) = curves
    return figure(
        [curve(left, x, left_values, left_hover, {"color": INK, "width": 2}, mode="lines+markers"),
         curve(right, x, right_values, right_hover, {"color": ACCENT, "width": 2, "dash": "dash"}, mode="lines+markers",
               yaxis="y2")],
        summary, xaxis=below, yaxis=axis(left, rangemode="tozero"),
        yaxis2=axis(right, overlaying="y", side="right", rangemode="tozero", showgrid=False, tickmode="auto", nticks=6))
