"""A rig that answers prompts: the live ``Source`` of the page, the command line and the benchmark."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from threading import Lock
from typing import TypedDict, Unpack

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from engine.budget.auto import UNMEASURED, AutoBudget, DraftHistory, SharedRows
from engine.budget.cost import CostCurve
from engine.checkpoints.memory import RunMemory, memory_error
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import BatchRequest, decode
from engine.decoding.methods import METHODS
from engine.decoding.plan import Drafter, check
from engine.models.device import rounds_in_inference_mode
from engine.records import Integers, PromptRequest, Request, Round, Sampling
from engine.requests.prompts import Turn, familiar, outside
from engine.requests.rig_names import AUTO_DTYPE
from engine.serving.chat import TokenTexts, prompt_ids
from engine.serving.cost import CostBook
from engine.serving.rigs import Rig, load_rig
from engine.serving.seats import OwnRounds, Seat, SharedRun
from engine.serving.shared_rounds import SharedRounds
from engine.trace import End, Entry, Header, Line, Trace, committed_ids, gather

KEPT_PROMPTS = 8  # tokenised: a run's prompt is asked for when it queues, when it begins, and to judge its kind


class AskOptions(TypedDict, total=False):
    """The fields of ``records.PromptRequest`` besides the prompt."""

    method: str
    budget: int
    pace: str
    max_tokens: int
    sampling: Sampling
    split: str
    drafters: tuple[str, ...]
    turns: tuple[tuple[str, str], ...]


class Answer(Iterator[Round]):
    """The rounds of an answer, made as they are read."""

    def __init__(self, lines: Generator[Line, None, None], tokenizer: PreTrainedTokenizerBase) -> None:
        self._lines, self._tokenizer = lines, tokenizer
        self._read: list[Line] = []

    def __next__(self) -> Round:
        for line in self._lines:
            self._read.append(line)
            if isinstance(line, Entry):
                return line.round
        raise StopIteration

    @property
    def token_ids(self) -> list[int]:
        """The text so far."""
        return committed_ids(line.round for line in self._read if isinstance(line, Entry))

    @property
    def text(self) -> str:
        """The text so far; a character that spans tokens ends in U+FFFD until it is whole."""
        return str(self._tokenizer.decode(self.token_ids))

    @property
    def trace(self) -> Trace:
        """The whole run, to be written with ``engine.trace.dump``; TraceError before its end."""
        return gather(self._read)

    def close(self) -> None:
        """End the run where it is, and free its caches."""
        self._lines.close()


class LiveRig:
    """One rig that answers. With ``shares``, as for a page, its runs share rounds, made by one thread of their own;
    without, they follow one another in their readers' threads, since two threads that compute slow each other down
    (``models/device.py``)."""

    def __init__(self, rig: Rig, shares: bool = False) -> None:
        self._rig = rig
        self._reading = Lock()
        self._memory = RunMemory(rig.target)
        self._costs = CostBook(rig)
        self._histories: dict[Hashable, DraftHistory] = defaultdict(DraftHistory)  # by method and drafters
        self._shared = SharedRounds(rig.target, SharedRows())
        self._shares = shares
        self._texts = TokenTexts(rig.tokenizer)
        self._prompt_ids = lru_cache(KEPT_PROMPTS)(
            lambda prompt, turns: prompt_ids(rig.tokenizer, prompt, turns, rig.chat))

    @property
    def rig(self) -> str:
        """The rig's name."""
        return self._rig.name

    @property
    def loaded(self) -> Rig:
        """The loaded rig itself."""
        return self._rig

    @property
    def costs(self) -> CostBook:
        """What rounds cost on this rig; the caller has to hold the rig."""
        return self._costs

    @property
    def hardware(self) -> str:
        """The name of the hardware that the target runs on."""
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
        return tuple(self._rig.drafters_for(method))

    def request(self, ask: PromptRequest) -> Request:
        """The request with its prompt tokenised; RequestError where it cannot be made."""
        stop = self._rig.target.model.generation_config.eos_token_id
        return Request(
            self._ids(ask.prompt, ask.turns), method=ask.method, budget=ask.budget, max_tokens=ask.max_tokens,
            sampling=ask.sampling, stop_ids=frozenset([stop] if isinstance(stop, int) else stop or []),
            split=ask.split, pace=ask.pace)

    def share(self, ask: PromptRequest) -> float:
        drafting = len(self._rig.drafters_for(ask.method, ask.drafters))
        return self._memory.share(self.request(ask), drafting) if self._shares else 1.0

    def _ids(self, prompt: str, turns: tuple[Turn, ...] = ()) -> tuple[int, ...]:
        """A conversation as token ids. One caller at a time, since reading special tokens as text is a setting of the
        tokenizer."""
        with self._reading:
            return self._prompt_ids(prompt, turns)

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        drafters = self._rig.drafters_for(ask.method, ask.drafters)
        request = self.request(ask)
        check(request, self._rig.target, len(drafters))  # now, not at the first line
        return self._lines(ask, request, drafters)

    def generate(self, prompt: str, **options: Unpack[AskOptions]) -> Answer:
        """An answer whose rounds are made as they are read; RequestError where it cannot be given. ``options`` are the
        fields of ``records.PromptRequest``: method, budget, pace ("auto": as many nodes as pay), max_tokens and so
        on."""
        return Answer(self.run(PromptRequest(prompt, **options)), self._rig.tokenizer)

    @contextmanager
    def rounds(self, ask: PromptRequest) -> Iterator[Generator[Round, None, None]]:
        """The rounds of a run without text or trace lines, for measuring; the caller holds the rig meanwhile."""
        with self.in_turns([ask]) as (rounds,):
            yield rounds

    @contextmanager
    def in_turns(self, asks: Sequence[PromptRequest]) -> Iterator[list[Generator[Round, None, None]]]:
        """The rounds of several asks, for a caller that takes a few of the one and a few of the other; it holds the rig
        meanwhile."""
        apart, requests = len(asks) > 1, [self.request(ask) for ask in asks]
        drafters = [list(self._rig.drafters_for(ask.method, ask.drafters).values()) for ask in asks]
        with self.held(" beside ".join(map(request_in_words, requests))), ExitStack() as opened:
            yield [opened.enter_context(closing(self._decode(request, proposing, apart)))
                   for request, proposing in zip(requests, drafters, strict=True)]

    def _decode(self, request: Request, drafters: Sequence[Drafter], apart: bool = False) -> Generator[
            Round, None, None]:
        """The rounds at the request's pace; ``apart`` from others that are open, with caches of its own. Needs the rig
        to itself, since an adaptive pace may measure first."""
        target = self._rig.target.fork() if apart else self._rig.target
        forks = [drafter.fork() for drafter in drafters] if apart else drafters
        if not drafters or request.pace != AUTO:
            return rounds_in_inference_mode(decode(request, target, forks))
        budget = self.auto_budget(request, drafters)
        return rounds_in_inference_mode(decode(request, target, forks, budget, SharedRows()))

    def auto_budget(self, request: Request, drafters: Sequence[Drafter], busy: bool = False) -> AutoBudget:
        """The budget policy of a run at the pace ``auto``. A run that has the rig to itself measures for about a second
        where no cost curve of such a context length is known yet; on a ``busy`` one nothing is measured, since they
        would wait for it. Where another tree would accept other tokens, the policy learns nothing from other runs, nor
        from the clock, so that the curve alone, once measured, decides what it drafts."""
        middle = len(request.prompt_ids) + request.max_tokens // 2
        curve = (self._costs.known(middle) or UNMEASURED) if busy else self._costs.ready(middle, request.sampling)
        if not METHODS[request.method].follows_text:
            return AutoBudget(curve, shares=False)
        return AutoBudget(curve, self._histories[request.method, *map(id, drafters)])

    def curve(self, context: int, sampling: Sampling, requests: int = 1) -> CostCurve:
        """The cost of rounds, after ``context`` tokens, that so many requests share; the first call for a context
        bucket takes seconds to measure."""
        with self.held(f"while the cost of rounds after {context} tokens was measured"):
            return self._costs.curve(context, sampling, requests)

    def quick_curve(self, context: int, sampling: Sampling) -> CostCurve:
        """The cost of rounds after about ``context`` tokens; where it is not known, it takes a second to measure."""
        with self.held(f"while the cost of rounds after {context} tokens was measured"):
            return self._costs.ready(context, sampling)

    def _lines(self, ask: PromptRequest, request: Request, drafters: Mapping[str, Drafter]) -> Generator[Line, None,
                                                                                                         None]:
        with self._answered(request, list(drafters.values())) as seat:
            told = np.zeros(self._rig.target.config.vocab_size, np.bool_)  # the tokens whose text is told already
            told[list(request.prompt_ids)] = True
            yield seat.call(lambda: self._header(ask, request, tuple(drafters)))
            seconds, count, shared, most = 0.0, 0, 0, 1
            last: Round | None = None
            while True:
                began = time.perf_counter()
                answer = seat.round()
                seconds += time.perf_counter() - began
                if answer is None:
                    break
                last, others = answer
                shown = tokens_of(last)
                fresh = shown[~told[shown]]
                told[fresh] = True
                count += 1
                shared, most = shared + bool(others), max(most, others.runs if others else 1)
                yield Entry(last, self._texts.of(set(fresh.tolist())), seconds, others)
            yield End(self._reason(request, last), count, seconds, said=shared_rounds_sentence(shared, count, most - 1))

    @contextmanager
    def _answered(self, request: Request, drafters: Sequence[Drafter]) -> Iterator[Seat | OwnRounds]:
        """A place to get a run's rounds from: a seat among others, or rounds of its own."""
        if not self._shares:
            with self.held(request_in_words(request)), closing(self._decode(request, drafters)) as rounds:
                yield OwnRounds(rounds)
            return
        adaptive = request.pace == AUTO and bool(drafters)
        with self._shared.seat(SharedRun(lambda: BatchRequest(
                request, drafters,
                self.auto_budget(request, drafters, self._shared.runs > 1) if adaptive else None),
                request_in_words(request))) as seat:
            yield seat

    @contextmanager
    def held(self, wish: str) -> Iterator[None]:
        """Hold the rig for the caller alone. RequestError where the device has no memory for the request; ``wish``
        completes its sentence with what was asked for. A later, smaller request may succeed."""
        with self._shared.alone():
            try:
                yield
            except torch.OutOfMemoryError as error:
                raise memory_error(error, wish) from error

    def close(self) -> None:
        """Free what finished runs left allocated; the weights are freed with the last reference to this object."""
        with self._shared.alone():
            self._rig.target.release()

    def _header(self, ask: PromptRequest, request: Request, drafters: tuple[str, ...]) -> Header:
        target = self._rig.target
        return Header(
            request=request, prompt=ask.prompt, rig=self._rig.name, drafters=drafters, hardware=self.hardware,
            dtype=target.dtype, precision=self._rig.precision.reason, context_limit=target.context_limit,
            pieces=self._texts.of(set(request.prompt_ids) | request.stop_ids),
            revisions={**self._rig.revisions, "torch": torch.__version__}, note=self._note(ask.prompt),
            turns=ask.turns, recurrent_layers=target.recurrent_layers)

    def _note(self, prompt: str) -> str:
        """The rig's notes, and a warning where the prompt is unlike its training: matching none of its patterns, and
        more surprising to the target than its training prompts."""
        notes, rig = list(self._rig.notes), self._rig
        strange = not math.isinf(rig.familiar_nats) and not familiar(prompt, rig.familiar)
        if strange and self.surprise(prompt) > rig.familiar_nats:
            notes.append(outside(rig.name, rig.good_at))
        return " ".join(notes)

    @torch.inference_mode()
    def surprise(self, prompt: str) -> float:
        """The mean negative log probability of the user's words under the target, in nats per token."""
        tokens = torch.tensor([self._ids(prompt)], device=self._rig.target.device)
        logprobs = self._rig.target.model(input_ids=tokens, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        return -float(logprobs.gather(-1, tokens[0, 1:, None]).mean())

    def _reason(self, request: Request, last: Round | None) -> str:
        if last is None or last.acceptance.bonus in request.stop_ids:
            return "stop"
        written = last.start + len(last.acceptance.keep) - len(request.prompt_ids)
        return "length" if written >= request.max_tokens else "context"


def open_rig(name: str, dtype: str = AUTO_DTYPE) -> LiveRig:
    """The rig of that name, ready to answer; RigError says what is missing or does not fit."""
    return LiveRig(load_rig(name, dtype))


def shared_rounds_sentence(shared: int, count: int, others: int) -> str:
    """The sentence for a run that shared rounds with others: its speed is not that of a run alone."""
    if not shared:
        return ""
    whom = "another run" if others == 1 else f"up to {others} other runs"
    return f"It shared {shared} of its {count} rounds with {whom}, so its speed is not that of a run alone."


def request_in_words(request: Request) -> str:
    """What a run asked the device for, in words that complete an error's sentence."""
    return f"at a budget of {request.budget} nodes and {len(request.prompt_ids)} prompt tokens"


def tokens_of(shown: Round) -> Integers:
    """Every token that a round shows, (n,) int32 with repeats: proposals, nodes, choices, and the bonus token."""
    return np.concatenate([
        *(draft.tokens.ravel() for draft in shown.drafts), *(tree.tokens for tree in shown.candidates),
        shown.tree.tokens, shown.verification.choice, [shown.acceptance.bonus]], dtype=np.int32)
