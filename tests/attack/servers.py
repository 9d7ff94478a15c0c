"""Servers that lie in what they report: attached, asked, shown, exported, watched in the lab."""

import base64
import gzip
import json
import resource
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from engine.decoding.methods import SERVED
from engine.errors import CanopyError
from engine.records import PromptRequest
from engine.servers.counters import Watch
from engine.trace import UPLOADED, Trace, dumps, loads
from explorer.attached import attach, server_of
from explorer.lab.attached_server import counters_view
from explorer.rig import CurrentRig, Instruments
from explorer.run_queue import RunQueue
from explorer.runs import Runner, Runs
from tests.attack.area import Area, BrokenError, Case, check_sentence
from tests.attack.mutations import bent, bent_bytes, odd
from tests.engine.servers.scripted_server import CHAT, unwired

RECORDED = Path(__file__).parents[1] / "engine" / "servers" / "answers"
MAX_MIB = 1024  # of this process, imports included
OWNERS = ("vllm", "sglang", "llamacpp", "somebody")
FIGURES = (  # that servers report, each with the section that it stands in
    *(("metrics", "speculative_decoding", name) for name in (
        "per_step_accepted", "per_step_drafted", "acceptance_histogram", "num_spec_steps", "num_draft_tokens",
        "num_accepted_draft_tokens", "num_spec_tokens", "mean_acceptance_length", "draft_acceptance_rate")),
    *(("sglext", "spec_tokens_details", name) for name in (
        "spec_verify_ct", "spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_accept_length",
        "spec_correct_drafts_histogram")),
    *(("meta_info", name) for name in ("spec_verify_ct", "spec_accept_token_num", "spec_draft_token_num")),
    *(("timings", name) for name in ("draft_n", "draft_n_accepted", "predicted_n")), ("prompt_token_ids",))
COUNTERS = ("vllm:spec_decode_num_drafts", "vllm:spec_decode_num_accepted_tokens", "sglang:spec_accept_length",
            'vllm:spec_decode_num_accepted_tokens_per_pos{position="2"}', "llamacpp:spec_decode_num_drafts",
            "llamacpp:tokens_predicted", "vllm:generation_tokens", "vllm:num_requests_running")


def lie(random: Random, values: Sequence[Any]) -> Any:
    """A figure, or a list of them, of any size and kind."""
    number = random.choice((0, 1, 2, 7, -1, 15, 1024, 1025, 65_537, 2**31 - 1, 2**31, 10**9, 10**400, -10**400, 1e308,
                            float("nan"), float("inf"), True, None, "7", 0.5, odd(random, values)))
    if random.random() < 0.03:
        return [random.choice((0, 1, 15, 1024, 2**31 - 1))] * random.choice((20_000, 65_537))
    if random.random() < 0.05:
        nested: Any = [number]
        for _ in range(random.choice((40, 900))):
            nested = [nested]
        return nested
    few = random.choice((0, 1, 2, 5, 8, 40))
    return random.choice((number, number, [number] * few, [random.randrange(16) for _ in range(few)]))


def reported(random: Random, values: Sequence[Any]) -> dict[str, Any]:
    """An event with a report, some of whose figures are lies."""
    event: dict[str, Any] = {"choices": []}
    for *sections, name in random.sample(FIGURES, random.choice((1, 2, 4, 8))):
        place = event
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = lie(random, values)
    if random.random() < 0.5:  # two lists that fit each other
        steps = [random.choice((0, 1, 5, 1024, 2**31 - 1)) for _ in range(random.choice((1, 2, 6, 40)))]
        spoken = event.setdefault("metrics", {}).setdefault("speculative_decoding", {})
        spoken.update(per_step_accepted=[min(step, random.randrange(9)) for step in steps], per_step_drafted=steps)
    return event


def spoken(random: Random, values: Sequence[Any]) -> dict[str, Any]:
    """An event with text: sound, long, or with odd tokens."""
    text = random.choice(("a", " b", "c d e", "", "🌳", "\n", "x" * 1025, "word " * 500, "\ud800", "\0"))
    choice: dict[str, Any] = {"index": 0, "delta": {random.choice(("content", "reasoning")): text}}
    if random.random() < 0.6:
        told = [{"token": random.choice((text, "t", "\ufffd", "x" * 1025)), "bytes": random.choice(
            (None, [226], [300], [0] * 1025, [0.5])), "logprob": random.choice((-0.5, 0, -9999, 1, -1e308, -10**400,
                                                                                float("-inf"), "x", None))}]
        choice["logprobs"] = {"content": told * random.choice((1,) * 20 + (2, 5, 4097))}
    if random.random() < 0.5:
        choice["token_ids"] = [random.choice((0, 7, 2**30, 2**31 - 2))] * random.choice((1,) * 20 + (2, 5, 4096, 4097))
    if random.random() < 0.2:
        choice["finish_reason"] = random.choice(("stop", "length", "x" * 500, 7, ["stop"]))
    return {"choices": [choice]}


def answer(random: Random, values: Sequence[Any]) -> bytes:
    """A stream: a recorded one that is bent, or one made up of events."""
    if random.random() < 0.4:
        lines = (RECORDED / f"vllm-0.32.0-{random.choice(('trial', 'dflash', 'ngram-trial'))}.txt").read_bytes()
        events = [json.loads(line[6:]) for line in lines.splitlines() if line.startswith(b"data: {")][:40]
        for _ in range(random.choice((0, 1, 1, 2))):
            place = random.randrange(len(events))
            events[place] = bent(events[place], random, values)
    else:
        events = [spoken(random, values) for _ in range(random.choice((0, 1, 2, 6, 30)))]
    for _ in range(random.choice((0, 1, 1, 3))):
        events.insert(random.choice((len(events), random.randrange(len(events) + 1))), reported(random, values))
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    data += random.choice((b"data: [DONE]\n\n",) * 9 + (b"",))
    return bent_bytes(data, random) if random.random() < 0.1 else data


def metrics(random: Random, values: Sequence[Any]) -> str:
    """Counters, some of which are none."""
    lines = [f"{name} {random.choice((1, 0, -1, 1e308, 10**400, 'NaN', '+Inf', 'x', 0.5, 3, 12))}"
             for name in random.choices(COUNTERS, k=random.choice((0, 2, 9)))]
    if random.random() < 0.1:
        size = random.choice((100, 100_000))
        lines.append(random.choice(("a{" + "b" * size, 'a{b="' + "\\" * size, "a{" + "} " * size + "x", "a" * size)))
    return "\n".join(lines)


class Servers(Area):
    def __init__(self) -> None:
        self._replies: dict[str, bytes] = {}
        self._client = unwired(self._replies)
        self.attached = self.shown = 0

    def case(self, random: Random, values: Sequence[Any]) -> Case:
        """What it says at each path, as base64, and how many tokens it is asked for."""
        model: Any = {"id": "m", "owned_by": random.choice(OWNERS), "max_model_len": 4096}
        if random.random() < 0.15:
            model = bent(model, random, values)
        sound = random.choice((b'data: {"choices": [{"delta": {"content": "a"}}]}\n\ndata: [DONE]\n\n',
                               (RECORDED / "vllm-0.32.0-trial.txt").read_bytes()))
        replies = {"/v1/models": json.dumps({"data": [model]}).encode(), "/metrics": metrics(random, values).encode(),
                "/version": json.dumps({"version": odd(random) if random.random() < 0.1 else "1"}).encode(),
                "trial": sound if random.random() < 0.7 else answer(random, values), "chat": answer(random, values)}
        return {"max_tokens": random.choice((1, 16, 200, 4096)),
                "said": {path: base64.b64encode(data).decode() for path, data in replies.items()}}

    def trial(self, case: Case) -> None:
        """Attach it, ask it, and show what comes of that in every way."""
        replies = {path: base64.b64decode(data) for path, data in case["said"].items()}
        self._replies.update(replies, **{CHAT: replies["trial"]})
        try:
            rig = attach(self._client.address, lambda *_: None, self._client)
        except CanopyError as error:
            check_sentence(error)
            return
        self.attached += 1
        self._replies[CHAT] = replies["chat"]
        self._asked(rig, case["max_tokens"])
        try:
            server = server_of(rig.source)
            assert server is not None
            json.dumps(counters_view(Watch(server)), allow_nan=False).encode()
        except CanopyError as error:
            check_sentence(error)

    def _asked(self, rig: Instruments, max_tokens: int) -> None:
        ask = PromptRequest("How many?", method=SERVED, max_tokens=max_tokens)
        run = Runner(CurrentRig(rig), Runs(), RunQueue()).start(ask)
        for _ in run.news(lambda: 0.0):
            pass
        if run.lines:
            list(map(json.loads, run.whole()))
        if run.state_line["state"] == "error":
            check_sentence(message := run.state_line["message"])
            if "internal error" in message:
                raise BrokenError(message[:200])
        if trace := run.trace():
            self.shown += 1
            self._exported(trace, max_tokens)

    def _exported(self, trace: Trace, max_tokens: int) -> None:
        tokens = sum(len(entry.round.acceptance.keep) for entry in trace.entries)
        if tokens > max_tokens:
            raise BrokenError(f"{tokens} tokens, where {max_tokens} were asked for.")
        again = loads(gzip.compress(dumps(trace), mtime=0), "run", UPLOADED)
        if dumps(again) != dumps(trace):
            raise BrokenError("What is written of a run is not what was shown.")

    def check_all(self) -> None:
        """Memory stays within bounds."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{self.attached} servers were attached, {self.shown} runs were shown")
        if peak > MAX_MIB:
            raise BrokenError(f"The process took {peak:.0f} MiB.")
