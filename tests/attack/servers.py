"""Servers that lie in what they report: attached, asked, exported, watched in the lab."""

import base64
import json
import resource
from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from engine.decoding.methods import SERVED
from engine.errors import CanopyError
from engine.records import PromptRequest
from engine.servers.counters import Watch
from engine.servers.kinds import KINDS
from engine.servers.server import CHAT, MODELS
from engine.trace import dumps, encode_record, gather, loads
from explorer.attached import attach, server_of
from explorer.lab.attached_server import counters_view
from explorer.lines import encoded
from explorer.rig import Source
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.strategies import ODD, bent, bent_bytes, often
from tests.engine.servers.scripted_server import answers, chunk, unwired

MAX_MIB = 512  # by which the most memory that this process ever took may grow
FIGURES = sorted({(*place, name) for kind in KINDS.values() for place, names in kind.reports.items()
                  for name in names.values()})
COUNTERS = sorted(name for kind in KINDS.values() for name in kind.counters.values())
COUNTS = st.sampled_from((0, 1, 2, 7, 15, 1024, 1025, 65_537, 10**9, 2**31 - 1, 2**31, 2**63, -1, True, "7"))
FRACTIONS = st.sampled_from((-0.5, 0, -9999, 1, -1e308, 1e308, -10**400, float("-inf"), float("nan"), "x", None))
LIES = COUNTS | st.lists(st.integers(0, 16), max_size=40) | st.sampled_from(([1] * 20_000, [15] * 65_537)) | ODD
RECORDED = [[json.loads(line[6:]) for line in answers(name).splitlines() if line.startswith(b"data: {")][:40]
            for name in ("trial.txt", "dflash.txt", "ngram-trial.txt")]
WORDS = ("a", " b", "c d e", "", "🌳", "\n") * 9
TEXTS = st.sampled_from((*WORDS, "x" * 1025, "word " * 500, "\ud800", "\ufffd", "\0"))


def reported(figures: Mapping[Any, Any]) -> Any:
    """An event with a report of these figures, by the names of their places."""
    event: dict[str, Any] = {"choices": []}
    for (*places, name), figure in figures.items():
        found = event
        for place in places:
            found = found.setdefault(place, {})
        found[name] = figure
    return event


VLLM = ("metrics", "speculative_decoding")
STEPS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from((9, 15, 1024, 2**31 - 1))), max_size=40).map(
    lambda steps: {(*VLLM, "per_step_accepted"): [kept for kept, _ in steps],
                   (*VLLM, "per_step_drafted"): [tried for _, tried in steps]})
REPORTS = (st.dictionaries(st.sampled_from(FIGURES), LIES, max_size=8) | STEPS).map(reported)
TOKENS = st.fixed_dictionaries({"token": TEXTS}, optional={
    "bytes": often(None, [226], [300], [0] * 1025, [0.5]), "logprob": FRACTIONS})
TIMES = often(1, 2, 5, 4097, times=20)
SPOKEN = st.fixed_dictionaries({"delta": st.dictionaries(st.sampled_from(("content", "reasoning")), TEXTS)}, optional={
    "logprobs": st.builds(lambda token, count: {"content": [token] * count}, TOKENS, TIMES),
    "token_ids": st.builds(lambda token, count: [token] * count, st.sampled_from((7, 2**31 - 2)) | COUNTS, TIMES),
    "finish_reason": often("stop", "length", "x" * 500, 7, ["stop"])}).map(lambda choice: {"choices": [choice]})


@st.composite
def answer(draw: Callable[..., Any]) -> bytes:
    """A stream: a recorded one or one made up, some of whose events are bent, with reports in it."""
    events = list(draw(st.sampled_from(RECORDED) | st.lists(SPOKEN, min_size=1, max_size=8)))
    for _ in range(draw(st.sampled_from((0, 0, 0, 1, 2)))):
        place = draw(st.integers(0, len(events) - 1))
        events[place] = draw(bent(events[place]))
    events += draw(st.lists(REPORTS, max_size=2))
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    data += draw(often(b"data: [DONE]\n\n", b""))
    return bytes(draw(bent_bytes(data)) if draw(often(False, True)) else data)


METRICS = st.lists(st.builds("{}{} {}".format, st.sampled_from(COUNTERS), often('{position="2"}', "", "{" * 9**5),
                             COUNTS | FRACTIONS), max_size=9).map("\n".join)
LISTED = st.sampled_from((*(kind.owner for kind in KINDS.values()), "somebody")).map(
    lambda owner: {"data": [{"id": "m", "owned_by": owner, "max_model_len": 4096}]})


def packed(data: SearchStrategy[bytes]) -> SearchStrategy[str]:
    """Bytes as text, so that a case can be kept."""
    return data.map(lambda data: base64.b64encode(data).decode())

def peak_mib() -> float:
    """The most memory that this process took so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Attack(Area):
    cases = st.fixed_dictionaries({
        "max_tokens": st.sampled_from((1, 16, 200, 4096)),
        MODELS: packed((LISTED | LISTED.flatmap(bent)).map(json.dumps).map(str.encode)),
        "/version": packed(often("1", "\ud800", 7).map(lambda version: json.dumps({"version": version}).encode())),
        "/metrics": packed(METRICS.map(lambda text: text.encode("utf8", "replace"))),
        "trial": packed(st.sampled_from((chunk("a") + b"data: [DONE]\n\n", answers("trial.txt"))) | answer()),
        CHAT: packed(answer())})

    def __init__(self) -> None:
        self._replies: dict[str, bytes] = {}
        self._client = unwired(self._replies)
        self._before = peak_mib()

    def trial(self, case: Case) -> None:
        """Attach it, ask it, and show what comes of that in every way."""
        replies = {path: base64.b64decode(data) for path, data in case.items() if path != "max_tokens"}
        self._replies.update(replies, **{CHAT: replies["trial"]})
        try:
            source = attach(self._client.address, lambda *_: None, self._client).source
            self._replies[CHAT] = replies[CHAT]
            server = server_of(source)
            assert server
            self._run(source, case["max_tokens"])
            json.dumps(encode_record(counters_view(Watch(server))), allow_nan=False).encode()
        except CanopyError as error:
            check_sentence(error)

    def _run(self, source: Source, max_tokens: int) -> None:
        lines = []
        try:
            for line in source.prepare(PromptRequest("How many?", method=SERVED, max_tokens=max_tokens)).lines():
                if line:
                    encoded(line)
                    lines.append(line)
        except CanopyError as error:
            return check_sentence(error)
        trace = gather(lines)
        if sum(len(entry.round.acceptance.keep) for entry in trace.entries) > max_tokens:
            raise BrokenError("It wrote more tokens than it was asked for.")
        if dumps(loads(dumps(trace), "run")) != dumps(trace):
            raise BrokenError("What is written of a run is not what was shown.")

    def check_all(self) -> None:
        if (grown := peak_mib() - self._before) > MAX_MIB:
            raise BrokenError(f"The process took {grown:.0f} MiB more.")
