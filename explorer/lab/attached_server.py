"""The tab of an attached server: its counters over time, and its speed with several requests at once."""

from collections.abc import Sequence
from dataclasses import asdict

from engine.lab.machines import flags_of_server
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers.server import ConcurrencyLevel, Server, Traffic, Watch, by_depth, measured, silence, traffic
from explorer.lab.style import ACCENT, INK, axis, curve, figure
from explorer.run_queue import Job
from explorer.view import View


def _right_axis(title: str) -> View:
    """A second axis with ticks of its own."""
    return axis(title, overlaying="y", side="right", rangemode="tozero", showgrid=False, tickmode="auto", nticks=6)


def counters_view(watch: Watch) -> View:
    """A server's counters now and before: {"about", "traffic", "places": figures or None, "silence": that it drafts
    nothing, empty if it does, "flags": to paste, from its counts}."""
    looks, server = watch.look(), watch.server
    counts, shares = looks[-1].counts, by_depth(looks)
    running = "" if counts.running is None else f" {counts.running:.0f} requests run now."
    tau = 1 + counts.accepted / counts.drafts if counts.drafts and counts.accepted is not None else counts.length
    since = "" if tau is None else f" τ since it began: {tau:.2f}."
    return {"about": f"{server.title}, {server.model}: all of its requests.{running}{since}",
            "traffic": traffic_figure(traffic(looks)), "places": places_figure(shares), "silence": silence(looks),
            "flags": [asdict(flags) for flags in flags_of_server(shares, int(counts.drafts or 0))]}


def measure_concurrency(server: Server, prompts: Sequence[str], job: Job) -> View:
    """Measure its speed by requests at once; the job holds its progress. {"figure", "about": which requests failed}."""
    levels: list[ConcurrencyLevel] = []
    job.message = "One request, which is not counted …"
    for level in measured(server, prompts, job.stop):
        levels.append(level)
        job.message = f"{level.concurrency} at once: {level.tokens_per_second:.0f} tokens/s."
        job.share = len(levels) / len(TRIED_CONCURRENCY)
    failed = [f"{level.failed} of the requests {level.concurrency} at once failed: {level.failure}"
              for level in levels if level.failed]
    return {"figure": concurrency_figure(levels), "about": " ".join(failed)}


def traffic_figure(looks: Sequence[Traffic]) -> View | None:
    """τ and tokens a second against time; None before the second look."""
    if not looks:
        return None
    seconds = [look.seconds for look in looks]
    last = next((look.tau for look in reversed(looks) if look.tau is not None), None)
    return figure(
        [curve("tokens/s", seconds, [look.tokens_per_second for look in looks], "%{y:.0f} tokens/s",
               {"color": INK, "width": 2}),
         curve("τ", seconds, [look.tau for look in looks], "τ %{y:.2f}", {"color": ACCENT, "width": 2},
               mode="lines+markers", yaxis="y2")],
        "No drafts yet." if last is None else f"τ was {last:.2f} when it last drafted.", yaxis2=_right_axis("τ"),
        xaxis=axis("seconds since this tab was first opened"), yaxis=axis("tokens/s", rangemode="tozero"))


def places_figure(shares: Sequence[float]) -> View | None:
    """The share accepted by place in the draft; None if the server does not count it."""
    if not shares:
        return None
    bars = {"type": "bar", "x": list(range(1, len(shares) + 1)), "y": [100 * share for share in shares],
            "name": "accepted", "marker": {"color": "var(--drafter1)"},
            "hovertemplate": "place %{x}: accepted in %{y:.0f} % of the drafts<extra></extra>"}
    return figure([bars], f"The first drafted token is accepted in {shares[0]:.0%} of the drafts, the last in "
                          f"{shares[-1]:.0%}.",
                  xaxis=axis("place in the draft", dtick=1), yaxis=axis("accepted, %", range=[0, 100]))


def concurrency_figure(levels: Sequence[ConcurrencyLevel]) -> View | None:
    """Tokens a second of all requests together, and the median latency, against requests at once."""
    answered = [level for level in levels if level.latencies]
    if not answered:
        return None
    names, first, last = [str(level.concurrency) for level in answered], answered[0], answered[-1]
    return figure(
        [curve("tokens/s, all requests", names, [level.tokens_per_second for level in answered],
               "%{x} at once: %{y:.0f} tokens/s", {"color": INK, "width": 2.2}, mode="lines+markers"),
         curve("median seconds a request", names, [level.latency for level in answered],
               "%{x} at once: %{y:.2f} s a request", {"color": ACCENT, "width": 2, "dash": "dash"},
               mode="lines+markers", yaxis="y2")],
        f"{first.tokens_per_second:.0f} tokens per second for one request at once, {last.tokens_per_second:.0f} for "
        f"{last.concurrency}.", yaxis2=_right_axis("seconds a request"),
        xaxis=axis("requests at once", type="category"), yaxis=axis("tokens/s, all", rangemode="tozero"))
