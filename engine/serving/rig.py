"""A loaded rig: a target with its drafters. The page, the command line and the benchmarks run prompts through it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Lock
from time import perf_counter
from typing import Any

import numpy as np
import torch

from engine.budget.auto import UNMEASURED, AutoBudget, DraftHistory
from engine.budget.cost import CostCurve
from engine.checkpoints.memory import RunMemory, memory_errors, reusable_bytes, run_bytes
from engine.decoding.budget_policy import AUTO
from engine.decoding.loop import DecodeRun
from engine.decoding.methods import METHODS, method_named
from engine.decoding.options import prompt_request
from engine.decoding.protocols import Drafter
from engine.errors import RequestError
from engine.models.device import rounds_in_inference_mode
from engine.models.target import TorchTarget
from engine.records import Precision, PromptRequest, Request, Round, Sampling, Verification
from engine.requests.admission import Admission
from engine.requests.prompts import Turn
from engine.serving.card import RigCard
from engine.serving.cost import FULL, QUICK, CostCurves, Effort
from engine.serving.reusable_texts import ReusableTexts
from engine.serving.scheduler import RunRound, Scheduler, request_in_words
from engine.texts.tokenizer import ChatTokenizer, TokenPieceCache
from engine.trace import End, Entry, Header, Line, RunText, Trace, committed_ids, trace_from_lines

ALTERNATIVES = 5  # target tokens recorded after each kept row


class Answer(Iterator[Round]):
    """An iterator over the rounds of one generation; each round runs when it is requested."""

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
        return committed_ids(line.round for line in self._read if isinstance(line, Entry))

    @property
    def text(self) -> str:
        """The text so far; a character whose last byte is still missing reads as U+FFFD."""
        return str(self._text)

    @property
    def trace(self) -> Trace:
        """The finished run, for ``engine.trace.dump``. Raises TraceError while it is still running."""
        return trace_from_lines(self._read)

    def close(self) -> None:
        self._lines.close()


@dataclass(eq=False)
class Rig:
    """A target, its tokenizer and its drafters, loaded.

    Args:
        drafters: by name, always including ``ngram``.
        families: the default drafter of each method family.
        kinds: kind of each drafter's checkpoint, by drafter name.
        notes: shown with every run.
        opened_as: the name that ``open_rig`` takes.
        concurrent: runs share rounds, made by the scheduler thread. Otherwise runs follow one another in their readers'
            threads, because two computing threads slow each other down (``models/device.py``).
        admission: the queue of runs; the page's rigs share one.
    """

    card: RigCard
    target: TorchTarget
    tokenizer: ChatTokenizer
    drafters: Mapping[str, Drafter]
    families: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    opened_as: str = ""
    precision: Precision = Precision("")
    concurrent: bool = False
    admission: Admission = field(default_factory=Admission)
    stop_ids: frozenset[int] = frozenset()
    kinds: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        drafter = next((self.drafters.get(name) for name in self.card.defaults.get(1, ())), None)
        self.costs = CostCurves(self.name, self.target, drafter)  # needs the rig to itself
        self.scheduler = Scheduler()
        self.memory = RunMemory(self.target)
        self.reusable_texts = ReusableTexts(self.target, self.memory.reusable_bytes)
        # by method and names of drafters
        self.histories: dict[tuple[str, tuple[str, ...]], DraftHistory] = defaultdict(DraftHistory)
        self._reading = Lock()
        self.piece_cache = TokenPieceCache(self.tokenizer)

    @property
    def name(self) -> str:
        return self.card.title

    @property
    def good_at(self) -> str:
        return self.card.good_at

    @property
    def hardware(self) -> str:
        return self.target.hardware

    @property
    def methods(self) -> Sequence[str]:
        return [name for name, row in METHODS.items() if row.family in self.families or row.drafter_count in (
            0, *self.card.defaults)]

    def drafters_for(self, method: str, names: Sequence[str] = ()) -> Mapping[str, Drafter]:
        """Return the drafters of a method by name, in order: ``names``, or the rig's defaults.

        Raises RequestError if they do not fit the method.
        """
        row = method_named(method)
        default = ((self.families[row.family],) if row.family in self.families
                 else self.card.defaults.get(row.drafter_count, ()))
        if not names and method not in self.methods:
            raise RequestError(f"{self.name} has no drafters for the method {method}; it runs "
                               f"{', '.join(self.methods)}.")
        chosen = tuple(names) or default
        unknown = [name for name in chosen if name not in self.drafters]
        if unknown or len(chosen) != row.drafter_count:
            raise RequestError(
                f"The method {method} takes {row.drafter_count} of the drafters {', '.join(self.drafters)}; "
                f"asked for were {', '.join(chosen) or 'none'}.")
        return {name: self.drafters[name] for name in chosen}

    def default_drafters(self, method: str) -> Sequence[str]:
        return tuple(self.drafters_for(method))

    def generate(self, prompt: str, **options: Any) -> Answer:
        """Generate text for a prompt, one round at a time.

        ``options`` are the fields of ``records.PromptRequest`` and of its ``Sampling``: method, budget (an int or
        "auto"), max_tokens, temperature, … Method and budget default to the card's. Raises RequestError if an option is
        invalid.
        """
        default = {"method": self.card.method} | ({} if options.get("pace") == AUTO else {"budget": self.card.budget})
        return Answer(self.run(prompt_request({**default, **options, "prompt": prompt}), cache_key=""))

    def run(self, options: PromptRequest, cache_key: str | None = None) -> Generator[Line, None, None]:
        """Prepare a run and return its lines. Reading the first line waits for admission and starts the run.

        The run reuses the cache of an earlier run of the same ``cache_key``; with None it reads the whole prompt.
        """
        run = self.prepare(options, cache_key=cache_key)

        def lines() -> Generator[Line, None, None]:
            with self.admission.admitted(run.share):
                yield from run.lines()
        return lines()

    def prepare(self, options: PromptRequest, interrupt: Callable[[], None] | None = None, *,
                cache_key: str | None = None) -> RigRun:
        """Tokenise the prompt, choose the drafters and check the request; RequestError if it cannot be served."""
        return RigRun(self, options, interrupt, cache_key)

    def prompt_ids(self, prompt: str, turns: Sequence[Turn] = (), thinking: str = "auto") -> tuple[int, ...]:
        """Tokenise a conversation. Locked, because splitting special tokens is state of the tokenizer."""
        with self._reading:
            return self.tokenizer.prompt_ids(prompt, turns, thinking)

    @contextmanager
    def exclusive(self, purpose: str) -> Iterator[None]:
        """Give the calling thread exclusive use of the rig. Re-entrant.

        Raises RequestError if the device runs out of memory; ``purpose`` completes its message.
        """
        with self.admission.exclusive(), memory_errors(purpose):
            self.scheduler.wait_until_idle()
            yield

    @contextmanager
    def interleaved(self, requests: Sequence[PromptRequest], interrupt: Callable[[], None] | None = None) -> Iterator[
            list[Generator[Round, None, None]]]:
        """Hold the rig and yield one round iterator per request, for callers that alternate between them.

        ``interrupt`` is called before each layer of each pass; it raises to stop the run.
        """
        runs = [self.prepare(request, interrupt) for request in requests]
        purpose = " beside ".join(request_in_words(run.request) for run in runs)
        with self.exclusive(purpose), ExitStack() as opened:
            for run in runs:
                run.choose_policy()  # before the rounds, because it may measure for a second
            yield [opened.enter_context(closing(rounds_in_inference_mode(run.rounds()))) for run in runs]

    def curve(self, context: int, sampling: Sampling, effort: Effort = FULL,
              interrupt: Callable[[], None] | None = None, *, again: bool = False) -> CostCurve:
        """Return the cost curve of rounds after ``context`` tokens, see ``CostCurves.curve``."""
        with self.exclusive(f"while the cost of rounds after {context} tokens was measured"):
            return self.costs.curve(context, sampling, effort, interrupt, again=again)

    def close(self) -> None:
        """Free the memory of finished runs. The weights go with the last reference to the rig. Call it while no run is
        in progress."""
        self.scheduler.wait_until_idle()
        self.reusable_texts.clear()
        self.target.release()

    @torch.inference_mode()
    def mean_nll(self, prompt_ids: Sequence[int]) -> float:
        """Return a prompt's mean negative log probability under the target, in nats per token."""
        tokens = torch.tensor([prompt_ids], device=self.target.device)
        logprobs = self.target.model(input_ids=tokens, use_cache=False).logits[0, :-1].float().log_softmax(-1)
        return -float(logprobs.gather(-1, tokens[0, 1:, None]).mean())


class RigRun(DecodeRun):
    """A run of a rig, checked when it is made.

    Args:
        share: the fraction of the rig's run memory that it needs; with 1 it runs exclusively.
        interrupt: called before each layer of each pass; it raises to stop the run.
    """

    target: TorchTarget
    prefill_seconds = 0.0  # of the prompt, up to the first token
    recorded = False  # whether its rounds become lines

    def __init__(self, rig: Rig, options: PromptRequest, interrupt: Callable[[], None] | None,
                 cache_key: str | None) -> None:
        self.rig, self.options, self.interrupt, self.cache_key = rig, options, interrupt, cache_key
        drafters = rig.drafters_for(options.method, options.drafters)
        self.drafter_names = tuple(drafters)
        last = rig.target.config.vocab_size - 1
        for token in options.forced:
            if token > last:
                raise RequestError(f"The forced token {token} is unknown; the target's last one is {last}.")
            if token in rig.stop_ids:
                raise RequestError(f"The forced token {token} ends the text, so nothing could follow it.")
        prompt_ids = rig.prompt_ids(options.prompt, options.turns, options.thinking)
        request = Request((*prompt_ids, *options.forced), stop_ids=rig.stop_ids, **options.shared())
        super().__init__(request, rig.target.fork(interrupt), [drafter.fork() for drafter in drafters.values()])
        self.target.forced = len(options.forced)
        self.share = rig.memory.share(request, len(drafters)) if rig.concurrent else 1.0

    def open(self) -> None:
        """See ``DecodeRun``. Needs the rig to itself, or to be called by the scheduler."""
        self.choose_policy()
        began = perf_counter()
        if self.cache_key is not None:
            reusable_texts, prompt_ids = self.rig.reusable_texts, self.request.prompt_ids
            keep = reusable_bytes(self.rig.target, len(prompt_ids)) <= self.rig.memory.reusable_bytes
            self.target.reuse_prefix(reusable_texts.best(self.cache_key, prompt_ids), keep)
            if not reusable_texts.make_room(run_bytes(self.rig.target, self.request, len(self.drafters))):
                self.target.reuse_prefix(keep=keep)  # the text that it would have begun with is freed, too
        super().open()
        self.prefill_seconds = perf_counter() - began

    def close(self, failed: bool = False) -> None:
        """See ``DecodeRun``. The text is kept for the next run of the same key, if there is memory for it."""
        try:
            if self.cache_key is not None and not self.closed and not failed:
                with suppress(RuntimeError):  # what torch raises without memory, on a CPU too
                    self.rig.reusable_texts.add(self.cache_key, self.target.reusable_text())
        finally:
            super().close(failed)

    @property
    def mid_context_length(self) -> int:
        """The context length half way through the longest text that it may write."""
        return len(self.request.prompt_ids) + self.request.max_tokens // 2

    def choose_policy(self) -> None:
        """Choose the budget policy at the pace ``auto``.

        A run that has the rig to itself measures a cost curve if there is none for this context length, in about a
        second. Concurrent runs never measure, because the others would wait. If the method's text depends on its trees,
        the policy ignores other runs and the clock, so that the text is reproducible.
        """
        rig, request = self.rig, self.request
        if request.pace != AUTO or not self.drafters:
            return
        if rig.admission.running() < 2:
            curve = rig.costs.curve(self.mid_context_length, request.sampling, QUICK, self.interrupt)
        else:
            curve = rig.costs.nearest(self.mid_context_length) or UNMEASURED
        if self.method.follows_text:
            self.policy = AutoBudget(curve, rig.histories[request.method, self.drafter_names])
        else:
            self.policy = AutoBudget(curve, pools_rows=False)

    def record(self, verification: Verification, seconds: dict[str, float]) -> Round:
        """See ``DecodeRun``. A recorded round also holds the target's alternatives, so that a run can branch there."""
        made = super().record(verification, seconds)
        return replace(made, alternatives=self.target.alternatives(ALTERNATIVES)) if self.recorded else made

    def lines(self) -> Generator[Line, None, None]:
        """Run, and yield the header, an entry per round, and the end. The run must be admitted. Closing the generator
        frees the caches."""
        rig, request, forced = self.rig, self.request, list(self.options.forced)
        self.recorded = True
        sent = np.zeros(rig.target.config.vocab_size, np.bool_)  # tokens whose text was in an earlier line
        sent[list(request.prompt_ids)] = True
        overrides = rig.piece_cache.overrides(len(request.prompt_ids) - len(forced))
        if overrides and forced:
            overrides.add(forced)
        seconds, count, shared_rounds, max_runs = 0.0, 0, 0, 1
        last: Round | None = None
        with self._opened() as (call, rounds):
            yield call(self._header)
            while True:
                began = perf_counter()
                answer = next(rounds, None)
                seconds += perf_counter() - began
                if answer is None:
                    break
                last, shared_pass = answer
                count += 1
                if shared_pass:
                    shared_rounds, max_runs = shared_rounds + 1, max(max_runs, shared_pass.runs)
                tokens = np.concatenate([
                    *(draft.tokens.ravel() for draft in last.drafts), *(tree.tokens for tree in last.candidates),
                    last.tree.tokens, last.verification.choice, [last.acceptance.bonus],
                    *([last.alternatives.tokens.ravel()] if last.alternatives else [])])
                unsent = tokens[~sent[tokens]]
                sent[unsent] = True
                yield Entry(last, rig.piece_cache.pieces(set(unsent.tolist())), seconds, shared_pass,
                            overrides.add(last.committed.tolist()) if overrides else {})
            others = "another run" if max_runs == 2 else f"up to {max_runs - 1} other runs"
            note = (f"It shared {shared_rounds} of its {count} rounds with {others}, so its speed is not that of a run "
                    "alone." if shared_rounds else "")
            yield End(self._reason(last), count, seconds, note=note, texts=overrides.finish() if overrides else {},
                      prefill_seconds=self.prefill_seconds, cached=self.target.cached_tokens)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Callable[[Callable[[], Any]], Any], Iterator[RunRound]]]:
        """Yield (call, rounds): ``call(f)`` runs f in the thread that makes the rounds."""
        if self.rig.concurrent:
            with self.rig.scheduler.add_run(self) as reader:
                yield reader.call, iter(reader.round, None)
        else:
            with memory_errors(request_in_words(self.request)), closing(
                    rounds_in_inference_mode(self.rounds())) as rounds:
                yield lambda act: act(), ((latest, None) for latest in rounds)

    def _reason(self, last: Round | None) -> str:
        if last is None or last.acceptance.bonus in self.request.stop_ids:
            return "stop"
        return "length" if self.tokens_left <= 0 else "context"

    def _header(self) -> Header:
        rig, target, request, options = self.rig, self.rig.target, self.request, self.options
        outside, notes = self._is_unfamiliar(), rig.notes
        if outside:
            notes = (*notes, f"This prompt lies outside what the {rig.name} was trained for. {rig.good_at}")
        return Header(
            request=request, prompt=options.prompt, rig=rig.name, drafters=self.drafter_names,
            hardware=target.hardware, dtype=target.dtype, precision=rig.precision.reason,
            context_limit=target.positions_for(len(request.prompt_ids)),
            pieces=rig.piece_cache.pieces(set(request.prompt_ids) | request.stop_ids),
            revisions={**rig.card.revisions, "torch": torch.__version__}, note=" ".join(notes), outside=outside,
            turns=options.turns, forced=len(options.forced), thinking=options.thinking,
            recurrent_layers=target.recurrent_layers,
            drafter_kinds=tuple(rig.kinds.get(name, "") for name in self.drafter_names))

    def _is_unfamiliar(self) -> bool:
        """Return whether the prompt is unlike the rig's training: no pattern of the card matches it, and its mean NLL
        is above ``familiar_nats``."""
        rig, prompt, limit = self.rig, self.options.prompt, self.rig.card.familiar_nats
        if math.isinf(limit) or rig.tokenizer.is_familiar(prompt, rig.card.familiar):
            return False
        # score the prompt without earlier turns, as the training prompts were scored
        return rig.mean_nll(rig.prompt_ids(prompt) if self.options.turns else self.request.prompt_ids) > limit
