"""A rig: a target with its drafters, loaded, which answers prompts. It is the live ``Source`` of the page, and what the
command line and the benchmarks measure.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch

from engine.budget.auto import UNMEASURED, AutoBudget, DraftHistory
from engine.budget.cost import CostCurve
from engine.checkpoints.memory import RunMemory, memory_errors
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import Run
from engine.decoding.methods import METHODS, method_named
from engine.decoding.options import prompt_request
from engine.decoding.protocols import Drafter
from engine.errors import RequestError
from engine.models.device import rounds_in_inference_mode
from engine.models.target import TorchTarget
from engine.records import Integers, Precision, PromptRequest, Request, Round, Sampling
from engine.requests.admission import Admission
from engine.requests.prompts import Turn, outside
from engine.serving.card import RigCard
from engine.serving.cost import CostBook
from engine.serving.scheduler import RunRound, Scheduler, request_in_words
from engine.texts.texts import Texts, TokenTexts
from engine.trace import End, Entry, Header, Line, RunText, Trace, committed_ids, gather


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
    ``admission`` says who may start, and who has the rig alone; the page's rigs share one.
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
    admission: Admission = field(default_factory=Admission)
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        usual = next((self.drafters.get(name) for name in self.card.defaults.get(1, ())), None)
        self.costs = CostBook(self.name, self.target, usual)  # needs the rig to itself
        self.scheduler = Scheduler()
        self.memory = RunMemory(self.target)
        # by method and names of drafters
        self.histories: dict[tuple[str, tuple[str, ...]], DraftHistory] = defaultdict(DraftHistory)
        self._reading = Lock()
        self.token_texts = TokenTexts(self.texts)

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
        return Answer(self.run(prompt_request({**options, "prompt": prompt})))

    def run(self, options: PromptRequest) -> Generator[Line, None, None]:
        """Prepare a run, and return its lines, which begin with the first of them, when it is admitted."""
        run = self.prepare(options)

        def lines() -> Generator[Line, None, None]:
            with self.admission.admitted(run.share):
                yield from run.lines()
        return lines()

    def prepare(self, options: PromptRequest, interrupt: Callable[[], None] | None = None) -> PreparedRun:
        """Tokenise the prompt, choose the drafters and check the request; RequestError if it cannot be served."""
        return PreparedRun(self, options, interrupt)

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = (), thinking: str = "auto") -> tuple[int, ...]:
        """Tokenise a conversation. One caller at a time: reading special tokens as text is a setting of the
        tokenizer."""
        with self._reading:
            return self.texts.prompt_ids(prompt, turns, thinking)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Hold the rig for the caller's thread alone, which may enter this again. RequestError if the device has no
        memory for the request; ``purpose`` completes its sentence with what was asked for. A later, smaller request may
        succeed."""
        with self.admission.exclusive(), memory_errors(purpose):
            self.scheduler.wait_until_idle()
            yield

    @contextmanager
    def interleaved(self, asks: Sequence[PromptRequest], interrupt: Callable[[], None] | None = None) -> Iterator[
            list[Generator[Round, None, None]]]:
        """Hold the rig, and yield the rounds of each request, for a caller that takes a few of one and a few of
        another. They have no text and no trace lines. ``interrupt`` is called before every layer of every pass, and
        ends it by raising."""
        runs = [self.prepare(ask, interrupt) for ask in asks]
        purpose = " beside ".join(request_in_words(run.request) for run in runs)
        with self.exclusive(purpose), ExitStack() as opened:
            for run in runs:
                run.choose_policy()  # before the rounds, because it may measure for a second
            yield [opened.enter_context(closing(rounds_in_inference_mode(run.rounds()))) for run in runs]

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

    def close(self) -> None:
        """Free what finished runs left allocated; the weights are freed with the last reference to this object. No run
        may be in progress."""
        self.scheduler.wait_until_idle()
        self.target.release()

    def check_forced(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """RequestError unless an answer may begin with these tokens and go on."""
        size = self.target.config.vocab_size
        for token in tokens:
            if token >= size:
                raise RequestError(f"The forced token {token} is unknown; the target's last one is {size - 1}.")
            if token in self.stop_ids:
                raise RequestError(f"The forced token {token} ends the text, so nothing could follow it.")
        return tokens

    @torch.inference_mode()
    def surprise(self, prompt_ids: Sequence[int]) -> float:
        """The mean negative log probability of a prompt under the target, in nats per token."""
        tokens = torch.tensor([prompt_ids], device=self.target.device)
        logprobs = self.target.model(input_ids=tokens, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        return -float(logprobs.gather(-1, tokens[0, 1:, None]).mean())


class PreparedRun(Run):
    """A run of a rig, which begins with its first line.

    ``drafter_names`` are those of its drafters, in order. ``share`` is the fraction of the rig's memory for runs that
    it takes: 1 if it has to be alone. ``interrupt`` is called before every layer of its passes, and ends them by
    raising.
    """

    def __init__(self, rig: Rig, options: PromptRequest, interrupt: Callable[[], None] | None) -> None:
        self.rig, self.options, self.interrupt = rig, options, interrupt
        drafters = rig.drafters_for(options.method, options.drafters)
        self.drafter_names = tuple(drafters)
        prompt_ids = rig.prompt_ids(options.prompt, options.turns, options.thinking)
        request = Request(
            (*prompt_ids, *rig.check_forced(options.forced)), stop_ids=rig.stop_ids, **options.shared())
        super().__init__(request, rig.target.fork(interrupt), [drafter.fork() for drafter in drafters.values()])
        self.share = rig.memory.share(request, len(drafters)) if rig.concurrent else 1.0

    def open(self) -> None:
        """See ``Run``. Needs the rig to itself, or to be called by the scheduler."""
        self.choose_policy()
        super().open()

    def choose_policy(self) -> None:
        """Choose the budget policy at the pace ``auto``.

        A run that has the rig to itself measures for about a second if no cost curve of such a context length is known
        yet; among concurrent runs nothing is measured, since they would wait for it. If another tree would accept other
        tokens, the policy learns nothing from other runs, nor from the clock, so that the curve alone, once measured,
        decides what it drafts.
        """
        rig, request = self.rig, self.request
        if request.pace != AUTO or not self.drafters:
            return
        middle = len(request.prompt_ids) + request.max_tokens // 2
        if rig.admission.running() < 2:
            curve = rig.costs.ready(middle, request.sampling, self.interrupt)
        else:
            curve = rig.costs.known(middle) or UNMEASURED
        if self.method.follows_text:
            self.policy = AutoBudget(curve, rig.histories[request.method, self.drafter_names])
        else:
            self.policy = AutoBudget(curve, pools_rows=False)

    def lines(self) -> Generator[Line, None, None]:
        """Begin, and yield the header, an entry per round, and the end. The caller has a place in the rig's admission,
        which has begun. Closing the generator frees the caches."""
        rig, request = self.rig, self.request
        with self._read() as (call, rounds):
            named = np.zeros(rig.target.config.vocab_size, np.bool_)  # the tokens whose text was in an earlier line
            named[list(request.prompt_ids)] = True
            yield call(self._header)
            seconds, count, shared, most = 0.0, 0, 0, 1
            last: Round | None = None
            forced = request.prompt_ids[len(request.prompt_ids) - len(self.options.forced):]
            texts = rig.token_texts.run(len(request.prompt_ids) - len(forced))
            if texts and forced:
                texts.add(list(forced))
            while True:
                began = time.perf_counter()
                answer = next(rounds, None)
                seconds += time.perf_counter() - began
                if answer is None:
                    break
                last, others = answer
                tokens = tokens_of(last)
                fresh = tokens[~named[tokens]]
                named[fresh] = True
                count += 1
                shared, most = shared + bool(others), max(most, others.runs if others else 1)
                yield Entry(last, rig.token_texts.of(set(fresh.tolist())), seconds, others,
                            texts.add(last.committed.tolist()) if texts else {})
            yield End(_reason(request, last), count, seconds, said=shared_rounds_sentence(shared, count, most - 1),
                      texts=texts.finish() if texts else {})

    @contextmanager
    def _read(self) -> Iterator[tuple[Callable[[Callable[[], Any]], Any], Iterator[RunRound]]]:
        """Yield (call, rounds): ``call(f)`` runs f in the thread that makes the rounds."""
        if self.rig.concurrent:
            with self.rig.scheduler.add_run(self) as reader:
                yield reader.call, iter(reader.round, None)
        else:
            with memory_errors(request_in_words(self.request)), closing(
                    rounds_in_inference_mode(self.rounds())) as rounds:
                yield lambda act: act(), ((latest, None) for latest in rounds)

    def _header(self) -> Header:
        rig, target, request = self.rig, self.rig.target, self.request
        return Header(
            request=request, prompt=self.options.prompt, rig=rig.name, drafters=self.drafter_names,
            hardware=target.hardware, dtype=target.dtype, precision=rig.precision.reason,
            context_limit=target.positions_for(len(request.prompt_ids)),
            pieces=rig.token_texts.of(set(request.prompt_ids) | request.stop_ids),
            revisions={**rig.card.revisions, "torch": torch.__version__}, note=self._note(),
            turns=self.options.turns, forced=len(self.options.forced), thinking=self.options.thinking,
            recurrent_layers=target.recurrent_layers)

    def _note(self) -> str:
        """The rig's notes, and a warning if the prompt is unlike its training: it matches none of its patterns and
        surprises the target more than its training prompts did."""
        rig, card, prompt = self.rig, self.rig.card, self.options.prompt
        if math.isinf(card.familiar_nats) or rig.texts.is_familiar(prompt, card.familiar):
            return " ".join(rig.notes)
        # a turn is compared by its own words, as the training prompts were
        prompt_ids = rig.prompt_ids(prompt) if self.options.turns else self.request.prompt_ids
        strange = rig.surprise(prompt_ids) > card.familiar_nats
        return " ".join([*rig.notes, outside(card.title, card.good_at)] if strange else rig.notes)


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


def tokens_of(shown: Round) -> Integers:
    """Every token that a round shows, (n,) int32 with repeats: proposals, nodes, choices, and the bonus token."""
    return np.concatenate([
        *(draft.tokens.ravel() for draft in shown.drafts), *(tree.tokens for tree in shown.candidates),
        shown.tree.tokens, shown.verification.choice, [shown.acceptance.bonus]], dtype=np.int32)
