"""A server's counters between two samples, and the curve over concurrency."""

import json
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from engine.errors import ServerError
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers import counters as limits
from engine.servers.client import Client
from engine.servers.counters import CounterHistory, Counts, by_depth, no_drafts_warning, read_counters, traffic
from engine.servers.kinds import KINDS
from engine.servers.load import ROUNDS_OF_REQUESTS, measure
from engine.servers.server import CHAT, Server
from tests.engine.servers.scripted_server import answers, says, scripted

VLLM, SGLANG, LLAMA = (KINDS[name] for name in ("vllm", "sglang", "llama_cpp"))


def counted(drafts: float, accepted: float, generated: float, *places: float) -> str:
    """Return counters in vLLM's format, of two engines."""
    lines = [f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts - 1}',
             'vllm:spec_decode_num_drafts_total{engine="1"} 1.0', "vllm:spec_decode_num_drafts_created 1.7e9",
             f"vllm:spec_decode_num_accepted_tokens_total {accepted}", f"vllm:generation_tokens_total {generated} 1700",
             *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} {count}'
               for place, count in enumerate(places))]
    return "\n".join(lines)


def test_counters_are_read_by_the_names_of_each_server() -> None:
    counts = read_counters(counted(10, 25, 40, 9, 7), VLLM.counters)
    assert counts == Counts(10, 25, 40, by_depth=(9, 7)), "summed over engines"
    real = read_counters(answers("metrics.txt").decode(), VLLM.counters)
    assert (real.drafts, real.accepted, real.running, real.by_depth[:3], len(real.by_depth)) == (
        30, 147, 0, (17, 14, 12), 15)
    assert read_counters('sglang:spec_accept_length{model="m"} 2.5\n', SGLANG.counters).tau == 2.5
    assert read_counters("# HELP llamacpp:spec_decode_num_drafts_total x\nllamacpp:spec_decode_num_drafts_total 3\n"
                         'llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 2\n', LLAMA.counters
                         ) == Counts(3, by_depth=(0, 2))


@pytest.mark.parametrize("hostile", [
    "", "<html>", "x" * 10**6, 'a{b="c"', "vllm:spec_decode_num_drafts_total NaN", "vllm:generation_tokens 1e308",
    "vllm:spec_decode_num_drafts_total 1e999", "vllm:spec_decode_num_drafts_total x", "vllm:generation_tokens -1", "\0",
    f"vllm:spec_decode_num_drafts_total 1{'0' * 400}",
    *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} 3'
      for place in ("99999", "-1", "", "٣", "1e3", "x")),
    "a{" + "b" * 10**6, 'a{b="' + "\\" * 10**6, "a{" + "} " * 10**6 + "x", 'a{' + 'b="' * 10**6 + "} 1",
    "a" + " " * 10**6 + "x y", "a{" + 'position="' * 10**6 + "} 1"])
def test_text_that_is_not_a_counter_is_skipped_in_linear_time(hostile: str) -> None:
    began = time.monotonic()
    assert read_counters(hostile, VLLM.counters) == Counts() and time.monotonic() - began < 10


def test_traffic_is_the_difference_between_samples() -> None:
    texts = (counted(10, 20, 30, 8, 6), counted(14, 30, 50, 12, 7), counted(14, 30, 50, 12, 7), counted(2, 1, 3, 1, 0))
    looks = [replace(read_counters(text, VLLM.counters), seconds=2.0 * number)
             for number, text in enumerate(texts)]
    assert [(span.generated, span.tau) for span in traffic(looks)] == [
        (10.0, 3.5), (0.0, None), (None, None)], "the last server was restarted"
    assert by_depth(looks[:3]) == [1.0, 0.25] and by_depth(looks[:1]) == [0.8, 0.6] and traffic(looks[:1]) == []
    own = [Counts(length=2.5, generated=4), Counts(length=2.75, generated=9, seconds=1.0)]
    assert [(span.generated, span.tau) for span in traffic(own)] == [(5.0, 2.75)] and by_depth(own) == []


def test_a_server_that_writes_without_drafting_gets_a_warning() -> None:
    looks = [Counts(drafts=drafts, generated=generated, seconds=seconds) for drafts, generated, seconds in (
        (10, 100, 0.0), (20, 160, 5.0), (20, 200, 12.0), (20, 230, 25.0), (21, 400, 30.0))]
    assert all(figure in no_drafts_warning(looks[:4]) for figure in ("70 tokens", "20 s"))
    assert no_drafts_warning(looks[:3]) == no_drafts_warning(looks) == "", "40 tokens are too few, and then it drafted"
    assert no_drafts_warning([Counts(generated=1), Counts(generated=99, seconds=9.0)])
    assert no_drafts_warning([Counts(drafts=1), Counts(drafts=1, seconds=9.0)]) == ""


def test_repeated_samples_share_one_request_per_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_SECONDS", 0.2)
    with scripted(metrics=says(counted(1, 1, 1), "text/plain")) as script:
        watched = CounterHistory(Server(Client(script.address), LLAMA, "m"))
        with pytest.raises(ServerError, match="llama.cpp"):
            watched.sample()
        script.replies.clear()
        with pytest.raises(ServerError, match=r"/metrics.*--metrics"):
            watched.sample()
        script.replies["/metrics"] = says("llamacpp:tokens_predicted 3", "text/plain")
        for _ in range(5):
            watched.sample()
        assert len(script.asked) == 3
        time.sleep(0.25)
        assert len(watched.sample()) == 2 and len(script.asked) == 4


class Busy:
    """Answer completely and record the largest concurrency; set ``stop`` at the fourth request."""

    def __init__(self, tokens: Any = 7, stop: threading.Event | None = None) -> None:
        self.now = self.peak = self.count = 0
        self._lock, self._tokens, self._stop = threading.Lock(), tokens, stop

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.now, self.count = self.now + 1, self.count + 1
            self.peak = max(self.peak, self.now)
            if self._stop and self.count == 4:
                self._stop.set()
        time.sleep(0.02)
        with self._lock:
            self.now -= 1
        says(json.dumps({"usage": {"completion_tokens": self._tokens}}))(handler)


def test_the_curve_sends_only_the_announced_requests() -> None:
    with scripted(chat=(busy := Busy())) as script:
        server = Server(Client(script.address), VLLM, "m")
        levels = list(measure(server, ["one", "two", "three"], threading.Event()))
        bodies = [body for _, _, body in script.asked]
    assert [level.concurrency for level in levels] == list(TRIED_CONCURRENCY) and 4 < busy.peak <= TRIED_CONCURRENCY[-1]
    assert len(bodies) == 1 + ROUNDS_OF_REQUESTS * sum(TRIED_CONCURRENCY)
    assert {body["max_tokens"] for body in bodies} == {64} and not any("stream" in body for body in bodies)
    assert all(level.latency and 0.02 <= level.latency < 5 and level.tokens_per_second > 0 for level in levels)
    assert {body["messages"][0]["content"] for body in bodies} == {"one", "two", "three"}


def test_the_curve_stops_on_request_and_on_an_error() -> None:
    with scripted() as script:
        server, stop = Server(Client(script.address), VLLM, "m"), threading.Event()
        script.replies[CHAT] = busy = Busy(stop=stop)
        assert [level.concurrency for level in measure(server, ["one"], stop)] == [1, 2] and busy.count <= 5
        script.replies[CHAT] = Busy(tokens="many")
        with pytest.raises(ServerError, match="completion_tokens"):
            next(measure(server, ["one"], threading.Event()))
        asked = iter([says('{"usage": {"completion_tokens": 3}}')])
        script.replies[CHAT] = lambda handler: next(asked, says("{}", status=429))(handler)  # noqa: PLW0108  # a new one each
        (level,) = measure(server, ["one"], threading.Event())
    assert level.failed == 2 and "429" in level.failure and level.latency is None
