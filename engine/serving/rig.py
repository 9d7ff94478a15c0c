"""A rig: a target with its drafters, loaded, which answers prompts. It is the live ``Source`` of the page, and what the
command line and the benchmarks measure.
"""

import math
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from threading import Lock
from typing import Any

import numpy as np
import torch

from engine.budget.auto import UNMEASURED, AutoBudget, DraftHistory, SharedRows
from engine.budget.cost import CostCurve
from engine.checkpoints.memory import RunMemory, memory_error
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import BatchRequest, decode
from engine.decoding.methods import METHODS, method_named
from engine.decoding.options import prompt_request
from engine.decoding.protocols import Drafter, check
from engine.errors import RequestError
from engine.models.device import rounds_in_inference_mode
from engine.models.target import TorchTarget
from engine.records import Integers, Precision, PromptRequest, Request, Round, Sampling
from engine.requests.prompts import Turn, outside
from engine.serving.card import RigCard
from engine.serving.cost import CostBook
from engine.serving.scheduler import RunRound, Scheduler
from engine.texts.texts import Texts, TokenTexts
from engine.trace import End, Entry, Header, Line, RunText, Trace, committed_ids, gather

KEPT_PROMPTS = 8  # tokenised: a run's prompt is asked for when it queues, when it begins, and to judge its kind


class Answer(Iterator[Round]):
    """The rounds of an answer, made as they are read."""

    def __init__(self, lines: Generator[Line, None, None]) -> None:
        self._lines = lines
        self._read: list[Line] = []
        self._text = RunText()

    def __next__(self) -> Round:
        for line in self._lines:
            self._read.append(line)
            self._text.add(line)
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
        return str(self._text)

    @property
    def trace(self) -> Trace:
        """The whole run, to be written with ``engine.trace.dump``; TraceError before its end."""
        return gather(self._read)

    def close(self) -> None:
        """End the run where it is, and free its caches."""
        self._lines.close()


@dataclass(eq=False)
class Rig:
    """A target, its tokenizer and its drafters, loaded.

    ``drafters`` are of any kind, by name; ``ngram`` is always among them. ``families`` names the best one for a family
    of methods, the ``card`` those for methods of one and of two drafters. ``notes`` are shown with every run,
    ``opened_as`` is the name to open the rig by.

    The runs of a ``concurrent`` rig, as the page's, share rounds, which one thread makes; otherwise they follow one
    another in their readers' threads, since two threads that compute slow each other down (``models/device.py``).
    """

    card: RigCard
    target: TorchTarget
    texts: Texts
    drafters: Mapping[str, Drafter]
    families: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    opened_as: str = ""
    precision: Precision = Precision("")
    concurrent: bool = False
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        usual = next((self.drafters.get(name) for name in self.card.defaults.get(1, ())), None)
        self.costs = CostBook(self.name, self.target, usual)  # needs the rig to itself
        self._scheduler = Scheduler(self.target, SharedRows())
        self._memory = RunMemory(self.target)
        self._histories: dict[Hashable, DraftHistory] = defaultdict(DraftHistory)  # by method and drafters
        self._reading = Lock()
        self._token_texts = TokenTexts(self.texts)
        self._prompt_ids = lru_cache(KEPT_PROMPTS)(self.texts.prompt_ids)

    @property
    def name(self) -> str:
        """The name of the set of checkpoints."""
        return self.card.title

    @property
    def good_at(self) -> str:
        """What prompts it was trained for, in a sentence."""
        return self.card.good_at

    @property
    def hardware(self) -> str:
        """The name of the hardware that the target runs on."""
        return self.target.hardware

    @property
    def methods(self) -> Sequence[str]:
        """The methods that its drafters can serve."""
        return [name for name, row in METHODS.items() if row.family in self.families or row.drafter_count in (
            0, *self.card.defaults)]

    def drafters_for(self, method: str, names: Sequence[str] = ()) -> Mapping[str, Drafter]:
        """The drafters of a method by name, in order: ``names``, or the rig's choice. RequestError if they do not
        suit the method."""
        row = method_named(method)
        usual = ((self.families[row.family],) if row.family in self.families
                 else self.card.defaults.get(row.drafter_count, ()))
        if not names and method not in self.methods:
            raise RequestError(f"{self.name} has no drafters for the method {method}; it runs "
                               f"{', '.join(self.methods)}.")
        chosen = tuple(names) or usual
        unknown = [name for name in chosen if name not in self.drafters]
        if unknown or len(chosen) != row.drafter_count:
            raise RequestError(
                f"The method {method} takes {row.drafter_count} of the drafters {', '.join(self.drafters)}; "
                f"asked for were {', '.join(chosen) or 'none'}.")
        return {name: self.drafters[name] for name in chosen}

    def usual_drafters(self, method: str) -> Sequence[str]:
        return tuple(self.drafters_for(method))

    def generate(self, prompt: str, **options: Any) -> Answer:
        """An answer whose rounds are made as they are read; RequestError if it cannot be given. The
        options are method, budget (or "auto": as many nodes as pay), max_tokens, temperature and so on: the fields of
        ``records.PromptRequest`` and of its ``Sampling``. Method and budget are the card's if they are left out."""
        usual = {"method": self.card.method} | ({} if options.get("pace") == AUTO else {"budget": self.card.budget})
        options = {**usual, **options}
        return Answer(self.run(prompt_request(prompt, options)))

    def run(self, ask: PromptRequest) -> Generator[Line, None, None]:
        drafters, request = self.drafters_for(ask.method, ask.drafters), self.request(ask)
        check(request, self.target, len(drafters))  # now, not at the first line
        return self._lines(ask, request)

    def share(self, ask: PromptRequest) -> float:
        drafting = len(self.drafters_for(ask.method, ask.drafters))
        return self._memory.share(self.request(ask), drafting) if self.concurrent else 1.0

    def request(self, ask: PromptRequest) -> Request:
        """The request with its prompt tokenised; RequestError if it cannot be made."""
        return Request(
            self._ids(ask.prompt, ask.turns), method=ask.method, budget=ask.budget, max_tokens=ask.max_tokens,
            sampling=ask.sampling, stop_ids=self.stop_ids, split=ask.split, pace=ask.pace)

    def batch_request(self, ask: PromptRequest) -> BatchRequest:
        """The request with its drafters and, at the pace ``auto``, its budget policy. Needs the rig to itself."""
        return self._with_drafters(ask, self.request(ask))

    def _with_drafters(self, ask: PromptRequest, request: Request,
                       interrupt: Callable[[], None] | None = None) -> BatchRequest:
        drafters = list(self.drafters_for(ask.method, ask.drafters).values())
        return BatchRequest(request, drafters, self._budget_policy(request, drafters, interrupt))

    def _ids(self, prompt: str, turns: tuple[Turn, ...] = ()) -> tuple[int, ...]:
        """A conversation as token ids. One caller at a time, since reading special tokens as text is a setting of the
        tokenizer."""
        with self._reading:
            return self._prompt_ids(prompt, turns)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Hold the rig for the caller alone. RequestError if the device has no memory for the request; ``purpose``
        completes its sentence with what was asked for. A later, smaller request may succeed."""
        with self._scheduler.exclusive():
            try:
                yield
            except torch.OutOfMemoryError as error:
                raise memory_error(error, purpose) from error

    @contextmanager
    def in_turns(self, asks: Sequence[PromptRequest], interrupt: Callable[[], None] | None = None) -> Iterator[
            list[Generator[Round, None, None]]]:
        """The rounds of several asks, without text or trace lines, for a caller that takes a few of the one and a few
        of the other; it holds the rig meanwhile. Each has caches of its own. ``interrupt`` is called before every layer
        of every pass, and ends it by raising."""
        purpose = " beside ".join(request_in_words(self.request(ask)) for ask in asks)
        with self.exclusive(purpose), ExitStack() as opened:
            works = [self._with_drafters(ask, self.request(ask), interrupt) for ask in asks]
            yield [opened.enter_context(closing(self._rounds_of(work, interrupt))) for work in works]

    def _rounds_of(self, work: BatchRequest, interrupt: Callable[[], None] | None) -> Generator[Round, None, None]:
        allocator = SharedRows() if work.policy else None
        return rounds_in_inference_mode(decode(
            work.request, self.target.fork(interrupt), [drafter.fork() for drafter in work.drafters], work.policy,
            allocator))

    def _budget_policy(self, request: Request, drafters: Sequence[Drafter],
                       interrupt: Callable[[], None] | None) -> AutoBudget | None:
        """The budget policy of a run at the pace ``auto``. A run that has the rig to itself measures for about a second
        if no cost curve of such a context length is known yet; among concurrent runs nothing is measured, since they
        would wait for it. Where another tree would accept other tokens, the policy learns nothing from other runs, nor
        from the clock, so that the curve alone, once measured, decides what it drafts."""
        if request.pace != AUTO or not drafters:
            return None
        middle = len(request.prompt_ids) + request.max_tokens // 2
        curve = (self.costs.ready(middle, request.sampling, interrupt) if self._scheduler.concurrency < 2
                 else self.costs.known(middle) or UNMEASURED)
        if not METHODS[request.method].follows_text:
            return AutoBudget(curve, pools_rows=False)
        return AutoBudget(curve, self._histories[request.method, *map(id, drafters)])

    def curve(self, context: int, sampling: Sampling, requests: int = 1) -> CostCurve:
        """The cost of rounds, after ``context`` tokens, that so many requests share; the first call for a context
        bucket takes seconds to measure."""
        with self.exclusive(f"while the cost of rounds after {context} tokens was measured"):
            return self.costs.curve(context, sampling, requests)

    def quick_curve(self, context: int, sampling: Sampling,
                    interrupt: Callable[[], None] | None = None) -> CostCurve:
        """The cost of rounds after about ``context`` tokens; if it is not known, it takes a second to measure.
        ``interrupt`` is called again and again meanwhile, and ends it by raising."""
        with self.exclusive(f"while the cost of rounds after {context} tokens was measured"):
            return self.costs.ready(context, sampling, interrupt)

    def _lines(self, ask: PromptRequest, request: Request) -> Generator[Line, None, None]:
        with self._rounds(ask, request) as (call, rounds):
            told = np.zeros(self.target.config.vocab_size, np.bool_)  # the tokens whose text is told already
            told[list(request.prompt_ids)] = True
            yield call(lambda: self._header(ask, request))
            seconds, count, shared, most = 0.0, 0, 0, 1
            last: Round | None = None
            texts = self._token_texts.run(len(request.prompt_ids))
            while True:
                began = time.perf_counter()
                answer = next(rounds, None)
                seconds += time.perf_counter() - began
                if answer is None:
                    break
                last, others = answer
                shown = tokens_of(last)
                fresh = shown[~told[shown]]
                told[fresh] = True
                count += 1
                shared, most = shared + bool(others), max(most, others.runs if others else 1)
                yield Entry(last, self._token_texts.of(set(fresh.tolist())), seconds, others,
                            texts.add(last.committed.tolist()) if texts else {})
            yield End(_reason(request, last), count, seconds, said=shared_rounds_sentence(shared, count, most - 1),
                      texts=texts.finish() if texts else {})

    @contextmanager
    def _rounds(self, ask: PromptRequest, request: Request) -> Iterator[
            tuple[Callable[[Callable[[], Any]], Any], Iterator[RunRound]]]:
        """A run's rounds, and what calls a function in the thread that makes them."""
        if self.concurrent:
            with self._scheduler.run(partial(self._with_drafters, ask, request), request_in_words(request)) as run:
                yield run.call, iter(run.round, None)
        else:
            with self.in_turns([ask]) as (rounds,):
                yield lambda act: act(), ((latest, None) for latest in rounds)

    def close(self) -> None:
        """Free what finished runs left allocated; the weights are freed with the last reference to this object."""
        with self._scheduler.exclusive():
            self.target.release()

    def _header(self, ask: PromptRequest, request: Request) -> Header:
        target, drafters = self.target, tuple(self.drafters_for(ask.method, ask.drafters))
        return Header(
            request=request, prompt=ask.prompt, rig=self.name, drafters=drafters, hardware=target.hardware,
            dtype=target.dtype, precision=self.precision.reason,
            context_limit=target.positions_for(len(request.prompt_ids)),
            pieces=self._token_texts.of(set(request.prompt_ids) | request.stop_ids),
            revisions={**self.card.revisions, "torch": torch.__version__}, note=self._note(ask.prompt),
            turns=ask.turns, recurrent_layers=target.recurrent_layers)

    def _note(self, prompt: str) -> str:
        """The rig's notes, and a warning if the prompt is unlike its training: matching none of its patterns, and
        more surprising to the target than its training prompts."""
        card = self.card
        strange = not math.isinf(card.familiar_nats) and not self.texts.is_familiar(prompt, card.familiar) and (
            self.surprise(prompt) > card.familiar_nats)
        return " ".join([*self.notes, outside(card.title, card.good_at)] if strange else self.notes)

    @torch.inference_mode()
    def surprise(self, prompt: str) -> float:
        """The mean negative log probability of the user's words under the target, in nats per token."""
        tokens = torch.tensor([self._ids(prompt)], device=self.target.device)
        logprobs = self.target.model(input_ids=tokens, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        return -float(logprobs.gather(-1, tokens[0, 1:, None]).mean())


def _reason(request: Request, last: Round | None) -> str:
    """Why the text ended."""
    if last is None or last.acceptance.bonus in request.stop_ids:
        return "stop"
    written = last.start + len(last.acceptance.keep) - len(request.prompt_ids)
    return "length" if written >= request.max_tokens else "context"


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
