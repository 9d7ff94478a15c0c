"""A rig that answers prompts: the live ``Source`` of the page, the command line and the benchmark."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock

import numpy as np
import torch

from engine.decoding.budget_policy import AUTO
from engine.decoding.plan import Drafter, plan
from engine.decoding.together import BatchRequest
from engine.lab.cost import CostCurve
from engine.methods import METHODS
from engine.records import Ask, Request, Round, Sampling
from engine.requests.familiar import familiar, outside
from engine.requests.rig_names import AUTO_DTYPE
from engine.requests.turns import Turn
from engine.runtime.rigs.chat import Spelling, prompt_ids
from engine.runtime.rigs.cost import CostBook
from engine.runtime.rigs.loops import HostLoop, loop_on
from engine.runtime.rigs.paces import Paces
from engine.runtime.rigs.rigs import Rig, open_rig
from engine.runtime.rigs.room import Room, told
from engine.runtime.rigs.seats import OwnRounds, Seat, SharedRun
from engine.runtime.rigs.shared_rounds import SharedRounds
from engine.runtime.rigs.telling import asked_of, company_of, token_ids
from engine.trace import End, Entry, Header, Line


class LiveRig:
    """One rig. Where it ``shares``, as for a page, runs share rounds, which a thread of their own makes; elsewhere they
    follow one another in their readers' threads: two that compute slow down each other (``target/waiting.py``)."""

    def __init__(self, rig: Rig, shares: bool = False) -> None:
        self._rig = rig
        self._reading = Lock()
        self._room = Room(rig)
        self._costs = CostBook(rig)
        self._paces = Paces(self._costs)
        self._shared = SharedRounds(self._paces.allotment)
        self._loop = loop_on(rig.target)
        self._plain_loop = loop_on(rig.plain_target) if rig.plain_target else self._loop
        self._shares = shares and isinstance(self._loop, HostLoop)  # another loop's rounds are captured for one run
        self._spelling = Spelling(rig.tokenizer)

    @property
    def rig(self) -> str:
        """The rig's name."""
        return self._rig.name

    @property
    def checkpoints(self) -> Rig:
        """The loaded rig itself."""
        return self._rig

    @property
    def costs(self) -> CostBook:
        """What rounds cost here, for whoever holds the rig already."""
        return self._costs

    @property
    def hardware(self) -> str:
        """What the target runs on, in words."""
        return self._rig.target.hardware

    @property
    def good_at(self) -> str:
        """What the rig's models were trained for, in words."""
        return self._rig.good_at

    @property
    def methods(self) -> Sequence[str]:
        """The methods that this rig's drafters can serve."""
        return [name for name, row in METHODS.items() if row.family in self._rig.families or row.drafter_count in (
            0, *self._rig.defaults)]

    @property
    def drafters(self) -> Sequence[str]:
        """The names of its drafters."""
        return tuple(self._rig.drafters)

    def usual_drafters(self, method: str) -> Sequence[str]:
        """See ``explorer.source.Source``."""
        return tuple(self._rig.drafters_for(method))

    def request(self, ask: Ask) -> Request:
        """The ask in tokens; RequestError where it cannot be."""
        stop = self._rig.target.model.generation_config.eos_token_id
        asked = self._ids(ask.prompt, ask.turns)
        return Request(
            asked, method=ask.method, budget=ask.budget, max_tokens=ask.max_tokens, sampling=ask.sampling,
            stop_ids=frozenset([stop] if isinstance(stop, int) else stop or []), split=ask.split, pace=ask.pace)

    def share(self, ask: Ask) -> float:
        """See ``explorer.source.Source``."""
        drafting = len(self._rig.drafters_for(ask.method, ask.drafters))
        return self._room.share(self.request(ask), drafting) if self._shares else 1.0

    def _ids(self, prompt: str, turns: Sequence[Turn]) -> tuple[int, ...]:
        """A conversation as tokens, one at a time: what a tokenizer takes for text is a switch of the tokenizer's."""
        with self._reading:
            return prompt_ids(self._rig.tokenizer, prompt, turns, self._rig.chat)

    def run(self, ask: Ask) -> Generator[Line, None, None]:
        """See ``explorer.source.Source``."""
        drafters = self._rig.drafters_for(ask.method, ask.drafters)
        request = self.request(ask)
        plan(request, self._rig.target, list(drafters.values()))  # refuses now, and not only at the first line
        return self._lines(ask, request, drafters)

    @contextmanager
    def rounds(self, ask: Ask) -> Iterator[Generator[Round, None, None]]:
        """The bare rounds of a run, for whoever measures: the rig is free by then, and nothing is spelt out."""
        drafters = self._rig.drafters_for(ask.method, ask.drafters)
        request = self.request(ask)
        with self.held(asked_of(request)), closing(self._decode(request, list(drafters.values()))) as rounds:
            yield rounds

    def _decode(self, request: Request, drafters: Sequence[Drafter]) -> Generator[Round, None, None]:
        """The rounds, at the request's pace; only while the rig is ours, since an adaptive one may measure first."""
        if not drafters:
            return self._plain_loop.decode(request, drafters)
        if request.pace != AUTO:
            return self._loop.decode(request, drafters)
        return HostLoop(self._rig.target).decode(
            request, drafters, self._paces.lone(request, drafters), self._paces.allotment())

    def curve(self, context: int, sampling: Sampling) -> CostCurve:
        """What rounds cost here after ``context`` tokens; measured, in seconds, when it is asked for first."""
        with self.held(f"while the cost of rounds after {context} tokens was measured"):
            return self._costs.curve(context, sampling)

    def load_curve(self, context: int, sampling: Sampling, requests: int) -> CostCurve:
        """The same of rounds that so many requests share."""
        with self.held(f"while the cost of rounds of {requests} requests after {context} tokens was measured"):
            return self._costs.curve(context, sampling, requests)

    def _lines(self, ask: Ask, request: Request, drafters: Mapping[str, Drafter]) -> Generator[Line, None, None]:
        with self._answered(request, list(drafters.values())) as seat:
            named = np.zeros(self._rig.target.config.vocab_size, np.bool_)
            named[list(request.prompt_ids)] = True
            yield seat.let(lambda: self._header(ask, request, tuple(drafters)))
            seconds, count, last, shared, most = 0.0, 0, None, 0, 1
            while True:
                began = time.perf_counter()
                answer = seat.round()
                seconds += time.perf_counter() - began
                if answer is None:
                    break
                made, company = answer
                shown = token_ids(made)
                fresh = shown[~named[shown]]
                named[fresh] = True
                count, last = count + 1, made
                shared, most = shared + bool(company), max(most, company.runs if company else 1)
                yield Entry(made, self._spelling.of(set(fresh.tolist())), seconds, company)
            yield End(self._reason(request, last), count, seconds, said=company_of(shared, count, most - 1))

    @contextmanager
    def _answered(self, request: Request, drafters: Sequence[Drafter]) -> Iterator[Seat | OwnRounds]:
        """The rounds of a run, which it may share with others."""
        if not self._shares:
            with self.held(asked_of(request)), closing(self._decode(request, drafters)) as rounds:
                yield OwnRounds(rounds)
            return
        target = self._rig.target if drafters else self._rig.plain_target or self._rig.target
        adaptive = request.pace == AUTO and bool(drafters)
        with self._shared.seat(SharedRun(target, lambda: BatchRequest(
                request, drafters,
                self._paces.visited(request, drafters, self._shared.runs > 1) if adaptive else None),
                asked_of(request))) as seat:
            yield seat

    @contextmanager
    def held(self, wish: str) -> Iterator[None]:
        """The rig, to the caller alone. RequestError where the device has no memory for the request; the next one may
        have it again."""
        with self._shared.alone():
            try:
                yield
            except torch.OutOfMemoryError as error:
                self._free()
                raise told(error, wish) from error

    def close(self) -> None:
        """Free what finished runs left allocated; the weights go with the last reference to this object."""
        with self._shared.alone():
            self._free()
            for target in filter(None, (self._rig.target, self._rig.plain_target)):
                target.release()

    def _free(self) -> None:
        self._loop.close()
        self._plain_loop.close()

    def instead(self, reason: str) -> LiveRig:
        """The same rig, saying with every run why another one is not running."""
        note = f"{reason} The {self._rig.name} answers instead."
        return LiveRig(replace(self._rig, notes=(note, *self._rig.notes)), self._shares)

    def _header(self, ask: Ask, request: Request, drafters: tuple[str, ...]) -> Header:
        target = self._rig.target if drafters else self._rig.plain_target or self._rig.target
        return Header(
            request=request, prompt=ask.prompt, rig=self._rig.name, drafters=drafters, hardware=self.hardware,
            dtype=target.dtype, context_limit=target.context_limit,
            pieces=self._spelling.of(set(request.prompt_ids) | request.stop_ids),
            revisions={**self._rig.revisions, "torch": torch.__version__}, note=self._note(ask.prompt),
            turns=ask.turns)

    def _note(self, prompt: str) -> str:
        """What is to be said of the rig, and where the prompt is of no kind that it was trained for: neither worded
        like one, nor as little surprising to the target as those of the training are."""
        notes, rig = list(self._rig.notes), self._rig
        strange = not math.isinf(rig.familiar_nats) and not familiar(prompt, rig.familiar)
        if strange and self.surprise(prompt) > rig.familiar_nats:
            notes.append(outside(rig.name, rig.good_at))
        return " ".join(notes)

    @torch.inference_mode()
    def surprise(self, prompt: str) -> float:
        """Mean negative log probability in nats of the user's words under the target."""
        token_ids_ = self._ids(prompt, ())
        tokens = torch.tensor([token_ids_], device=self._rig.target.device)
        logprobs = self._rig.target.model(input_ids=tokens, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        said = logprobs.gather(-1, tokens[0, 1:, None])[:, 0]
        return -float(said.mean())

    def _reason(self, request: Request, last: Round | None) -> str:
        if last is None or last.acceptance.bonus in request.stop_ids:
            return "stop"
        written = last.start + len(last.acceptance.keep) - len(request.prompt_ids)
        return "length" if written >= request.max_tokens else "context"


def serve(name: str, dtype: str = AUTO_DTYPE) -> LiveRig:
    """The rig of that name, ready to answer; RigError says what is missing or does not fit."""
    return LiveRig(open_rig(name, dtype))
