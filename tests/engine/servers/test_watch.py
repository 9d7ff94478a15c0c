"""What a server counts between two looks, and the curve against requests at once."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from engine.errors import ServerError
from engine.requests.limits import TRIED_CONCURRENCY
from engine.servers import server as limits
from engine.servers.client import Client
from engine.servers.kind import Counts, counts_of
from engine.servers.server import (
    ROUNDS_OF_REQUESTS,
    Server,
    TrafficLook,
    Watch,
    by_depth,
    measured,
    open_server,
    silence,
    traffic,
)
from engine.servers.vllm import vllm
from tests.engine.servers.scripted_server import CHAT, DONE, MODELS, chunk, says, scripted, streams

NAMES = vllm.counters
STOPPED_AT = 4  # requests


def text(drafts: float, accepted: float, generated: float, *places: float) -> str:
    """The counters as vLLM writes them, of two engines."""
    lines = [f'vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts - 1}',
             'vllm:spec_decode_num_drafts_total{engine="1"} 1.0', "vllm:spec_decode_num_drafts_created 1.7e9",
             f"vllm:spec_decode_num_accepted_tokens_total {accepted}", f"vllm:generation_tokens_total {generated} 1700",
             *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="{place}"}} {count}'
               for place, count in enumerate(places))]
    return "\n".join(lines)


def test_counters_are_summed_over_engines() -> None:
    counts = counts_of(text(10, 25, 40, 9, 7), NAMES)
    assert (counts.drafts, counts.accepted, counts.generated, counts.by_depth) == (10, 25, 40, (9, 7))
    assert counts.length is None and not counts.empty


@pytest.mark.parametrize("hostile", [
    "", "<html>", "x" * 10**6, 'a{b="c"', "vllm:spec_decode_num_drafts_total NaN", "vllm:generation_tokens 1e308",
    "vllm:spec_decode_num_drafts_total 1e999", "vllm:spec_decode_num_drafts_total x", "vllm:generation_tokens -1", "\0",
    f"vllm:spec_decode_num_drafts_total 1{'0' * 400}",
    *(f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{place}"}} 3'
      for place in ("99999", "-1", "", "٣", "1e3", "x"))])
def test_what_is_no_counter_is_passed_over(hostile: str) -> None:
    assert counts_of(hostile, NAMES).empty


@pytest.mark.parametrize("line", ["a{" + "b" * 10**6, 'a{b="' + "\\" * 10**6, "a{" + "} " * 10**6 + "x", "a" * 10**6,
                                  'a{' + 'b="' * 10**6 + "} 1", "a" + " " * 10**6 + "x y"])
def test_a_line_of_counters_takes_time_in_proportion_to_its_length(line: str) -> None:
    began = time.monotonic()
    counts_of(f"{line}\ndrafts 1e308\ndrafts 1e308\ntried 7", {"drafts": "drafts", "accepted": "tried"})
    assert time.monotonic() - began < 10


def test_traffic_is_what_happened_between_looks() -> None:
    texts = (text(10, 20, 30, 8, 6), text(14, 30, 50, 12, 7), text(14, 30, 50, 12, 7), text(2, 1, 3, 1, 0))
    looks = [TrafficLook(2.0 * number, counts_of(counters, NAMES)) for number, counters in enumerate(texts)]
    assert [(span.tokens_per_second, span.tau) for span in traffic(looks)] == [
        (10.0, 3.5), (0.0, None), (None, None)], "the last server was started anew"
    assert by_depth(looks[:3]) == [1.0, 0.25] and by_depth(looks[:1]) == [0.8, 0.6] and by_depth([]) == []
    assert traffic(looks[:1]) == []


def test_a_servers_own_mean_stands_where_it_counts_no_drafts() -> None:
    looks = [TrafficLook(0.0, Counts(length=2.5, generated=4)), TrafficLook(1.0, Counts(length=2.75, generated=9))]
    assert [(span.tokens_per_second, span.tau) for span in traffic(looks)] == [(5.0, 2.75)] and by_depth(looks) == []


def test_however_many_look_the_server_is_asked_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MIN_SECONDS", 0.2)
    with scripted(metrics=says(text(1, 1, 1), "text/plain")) as script:
        watched = Watch(Server(Client(script.address), vllm, "m", "", 0))
        for _ in range(5):
            watched.look()
        assert len(script.asked) == 1
        time.sleep(0.25)
        assert len(watched.look()) == len(script.asked) == 2
        script.replies["/metrics"] = says("", "text/plain")
        time.sleep(0.25)
        with pytest.raises(ServerError, match="has none of the counters of vLLM"):
            watched.look()


class Busy:
    """Answers whole, and notes how many it answers at once."""

    def __init__(self, seconds: float = 0.02, tokens: Any = 7, stop: threading.Event | None = None) -> None:
        self.now = self.most = self.count = 0
        self._lock, self._seconds, self._tokens, self._stop = threading.Lock(), seconds, tokens, stop

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.now, self.count = self.now + 1, self.count + 1
            self.most = max(self.most, self.now)
            if self._stop and self.count == STOPPED_AT:
                self._stop.set()
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        says(json.dumps({"usage": {"completion_tokens": self._tokens}}))(handler)


def opened(script: Any) -> Server:
    """The server, found to answer; from now on it is busy."""
    script.replies[CHAT] = streams(chunk("a"), DONE)
    return open_server(Client(script.address))


def test_the_curve_sends_what_it_says_and_no_more() -> None:
    with scripted(models=MODELS) as script:
        server = opened(script)
        script.replies[CHAT] = busy = Busy()
        before = len(script.asked)
        levels = list(measured(server, ["one", "two", "three"], threading.Event()))
        bodies = [body for _, _, body in script.asked[before:]]
    assert [level.concurrency
            for level in levels] == list(TRIED_CONCURRENCY) and busy.most <= TRIED_CONCURRENCY[-1] and busy.most > 4
    assert len(bodies) == busy.count == 1 + ROUNDS_OF_REQUESTS * sum(TRIED_CONCURRENCY)
    assert {body["max_tokens"] for body in bodies} == {limits.MAX_TOKENS}
    assert not any("stream" in body for body in bodies)
    assert [level.tokens for level in levels] == [7 * ROUNDS_OF_REQUESTS * level.concurrency for level in levels]
    assert all(0.02 <= level.latency < 5 and level.tokens_per_second > 0 for level in levels if level.latency)
    assert {body["messages"][0]["content"] for body in bodies} == {"one", "two", "three"}


def test_it_stops_when_it_is_told_to_and_where_nothing_answers() -> None:
    with scripted(models=MODELS) as script:
        server = opened(script)
        stop = threading.Event()
        script.replies[CHAT] = busy = Busy(stop=stop)
        levels = measured(server, ["one"], stop)
        assert [level.concurrency for level in levels] == [1, 2] and busy.count <= 5
        script.replies[CHAT] = Busy(tokens="many")
        with pytest.raises(ServerError, match="reports completion_tokens as 'many'"):
            next(measured(server, ["one"], threading.Event()))
        asked = iter([says('{"usage": {"completion_tokens": 3}}')])
        script.replies[CHAT] = lambda handler: next(asked, says("{}", status=429))(handler)  # noqa: PLW0108  # a new one each
        (level,) = measured(server, ["one"], threading.Event())
    assert level.failed == 2 and "has more to do than it takes (429)" in level.failure and level.latency is None


def test_a_server_that_writes_without_drafting_says_so() -> None:
    looks = [TrafficLook(0.0, Counts(drafts=10, generated=100)), TrafficLook(5.0, Counts(drafts=20, generated=160)),
             TrafficLook(12.0, Counts(drafts=20, generated=200)), TrafficLook(25.0, Counts(drafts=20, generated=230))]
    assert silence(looks).startswith("It wrote 70 tokens in the last 20 s and reported no drafted token")
    assert silence(looks[:3]) == "" == silence([])  # 40 tokens are too few
    assert silence([*looks, TrafficLook(30.0, Counts(drafts=21, generated=400))]) == ""
    assert silence([TrafficLook(0.0, Counts(generated=1)), TrafficLook(9.0, Counts(generated=99))])
    assert silence([TrafficLook(0.0, Counts(drafts=1)), TrafficLook(9.0, Counts(drafts=1))]) == ""
