"""Rigs: a target, its tokenizer and the drafters trained for it, described by a card, a name, or TARGET::DRAFTER."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import PreTrainedConfig

from engine.checkpoints.files import display_name, first_line, read_config
from engine.checkpoints.gguf import origin_of
from engine.checkpoints.loading import causal_config, load_causal
from engine.checkpoints.memory import DEFAULT_CONTEXT, LoadContext, choose_device_map
from engine.checkpoints.sources import LocalModel, fetch_package, fetch_weights, resolve_model
from engine.decoding.methods import PATH
from engine.decoding.protocols import Drafter
from engine.drafters.kinds import DrafterPlan, TargetFacts, kind_named, plan_drafter
from engine.drafters.ngram import NGramDrafter
from engine.errors import RigError
from engine.models.passes import longrope_switch_length
from engine.models.target import TorchTarget, check_tree_verification
from engine.records import Precision
from engine.requests.admission import Admission
from engine.requests.rig_names import (
    AUTO_DTYPE,
    BLOCK_SIZE_KEY,
    DTYPE_NAMES,
    EXACTNESS,
    HUB_RIGS,
    INT4,
    MTP,
    NGRAM,
    PAIR_MARK,
    RANDOM_PREFIX,
    RIGS_FOLDER,
    RigModels,
    parse_rig,
    rig_names,
)
from engine.serving.card import RigCard, has_card, read_card
from engine.serving.precision import DEFAULT_DTYPE, DTYPES, enable_int4, precision, storage_of
from engine.serving.random_weights import MEANINGLESS, SEED, random_models, random_tokenizer, shape_named
from engine.serving.rig import Rig
from engine.texts.bounded import BoundedTokenizer
from engine.texts.process import shared_process

log = logging.getLogger("canopy.rigs")
WRONG_KIND = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError, StrictDataclassError)


@dataclass(frozen=True)
class RigParts:
    """A rig before it is loaded: its card, the folders of its target and drafters, and the block sizes that its name
    gives drafters."""

    card: RigCard
    target: Path
    drafters: Mapping[str, Path]
    block_sizes: Mapping[str, int] = field(default_factory=dict)


def load_rig(name: str, dtype: str = AUTO_DTYPE, device: str = "", context: LoadContext = DEFAULT_CONTEXT,
             admission: Admission | None = None) -> Rig:
    """Load a rig by name, from a folder with a rig.json, or as TARGET::DRAFTER, or make one of random weights
    (random:SHAPE).

    The dtype "auto" is the fastest on this processor (see ``precision``). With an ``admission``, runs are concurrent
    (see ``Rig``). RigError says what is missing or does not fit, if possible before anything large is read.
    """
    if dtype not in DTYPE_NAMES:
        raise RigError(f"The dtype {dtype!r} is not supported; choose one of {', '.join(DTYPE_NAMES)}.")
    torch_device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        rig = (_random_rig(name, dtype, torch_device, context) if name.startswith(RANDOM_PREFIX)
               else _loaded(rig_parts(name, context), dtype, torch_device, context))
        rig.opened_as = name
        if admission:
            rig.admission, rig.concurrent = admission, True
        return rig
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise RigError(f"The GPU ran out of memory while {name} was loaded ({first_line(error)}); choose a smaller "
                       "target, or free memory that other programs hold.") from error


def rig_parts(name: str, context: LoadContext = DEFAULT_CONTEXT) -> RigParts:
    """Return the parts of a rig by name, fetched if they are not on this machine; RigError if there is no such rig."""
    if name.startswith(RANDOM_PREFIX):
        raise RigError(f"The weights of {name[:200]} are made when the rig is opened, so there is nothing to fetch.")
    if name in HUB_RIGS or PAIR_MARK in name:
        pair = parse_rig(name)
        try:
            return _pair_parts(name, pair, context)
        except RigError as error:
            raise RigError(f"{error} {pair.needs}".rstrip()) from error
    folder = next((folder for folder in (Path(name), RIGS_FOLDER / name) if has_card(folder)), None)
    if folder is None:
        raise RigError(f"There is no rig {name[:200]!r}; there are {', '.join(rig_names())}, or name a folder that "
                       f"holds a rig.json, or a target and a drafter as TARGET{PAIR_MARK}DRAFTER.")
    card, target = read_card(folder), folder / "target"
    if card.package and not target.is_dir():  # the container image has it there already
        target = fetch_package(folder.resolve().name, card.package, context.report)
    return RigParts(card, target, {name: folder / name for name in card.drafters})


def _pair_parts(name: str, pair: RigModels, context: LoadContext) -> RigParts:
    """Return a target with one or two drafters; with one, the n-gram drafter is the second."""
    target = resolve_model(pair.target, context.report)
    drafters: dict[str, LocalModel] = {}
    block_sizes: dict[str, int] = {}
    for number, source_name in enumerate(pair.drafters, 1):
        source, _, size = source_name.partition(BLOCK_SIZE_KEY)
        name_ = f"drafter {number}" if len(pair.drafters) > 1 else "drafter"
        if source == MTP and not kind_named(MTP).recognises(values := read_config(target.folder)):
            raise RigError(f"The target in {display_name(target.folder)} is a {values.get('model_type')}, of which no "
                           "layer for multi-token prediction runs here; name another drafter.")
        if source != NGRAM:
            drafters[name_] = target if source == MTP else resolve_model(source, context.report)
        if size:
            if not size.isdecimal():
                raise RigError(f"The block size {size[:40]!r} of {source[:200]} has to be a number, such as 7.")
            block_sizes[name_] = int(size)
    folders = {name: drafter.folder for name, drafter in drafters.items()}
    _planned(target.folder, folders, block_sizes)  # before gigabytes come
    for model in {target, *drafters.values()}:
        fetch_weights(model, context.report)
    names = (*drafters, NGRAM)[:2]
    card = RigCard(
        title=name if name in HUB_RIGS else target.label, drafters=tuple(drafters),
        defaults={count: names[:count] for count in range(1, len(names) + 1)},
        revisions={"target": target.label, **{name: drafter.label for name, drafter in drafters.items()}})
    return RigParts(card, target.folder, folders, block_sizes)


def _random_rig(name: str, dtype: str, device: torch.device, context: LoadContext) -> Rig:
    """Make the rig ``random:SHAPE``, in bfloat16 unless another dtype is named."""
    if dtype == INT4:
        others = ", ".join(other for other in DTYPE_NAMES if other != INT4)
        raise RigError(f"Random weights are not stored in 4 bits, so {name} has no {INT4}; choose one of "
                       f"{others}.")
    chosen = DEFAULT_DTYPE if dtype == AUTO_DTYPE else dtype
    target, drafter = random_models(shape_named(name), storage_of(chosen), device, context)
    log.warning("%s", MEANINGLESS)
    card = RigCard(title=name, drafters=("drafter",), defaults={1: ("drafter",), 2: ("drafter", NGRAM)},
                   revisions={"target": f"random, seed {SEED}"})
    drafters: dict[str, Drafter] = {"drafter": drafter, NGRAM: NGramDrafter(target.config.vocab_size)}
    return Rig(card, target, random_tokenizer(target.config.vocab_size), drafters, {PATH: NGRAM, NGRAM: NGRAM},
               notes=(MEANINGLESS,),
               precision=Precision(chosen, f"{chosen}: random weights have no fastest dtype; {EXACTNESS[chosen]}."),
               kinds={"drafter": "dflash", NGRAM: NGRAM})


def _loaded(parts: RigParts, dtype: str, device: torch.device, context: LoadContext) -> Rig:
    """Check configs and file headers, then load target and drafters."""
    shared_process().start()  # its imports take a second; meanwhile we read configs and headers
    config, facts, plans = _planned(parts.target, parts.drafters, parts.block_sizes)
    with _configured(parts.target):
        chosen = precision(dtype, parts.target, device, context, parts.card.acceptance_lengths)
        folders = list(dict.fromkeys([parts.target, *parts.drafters.values()]))
        device_map = choose_device_map(folders, config, storage_of(chosen.dtype), device, context)
    context.report(f"Reading the weights of {display_name(parts.target)} …", None)
    trained = {name: plan.thinking for name, plan in plans.items() if plan.thinking is not None}
    card = parts.card.model_copy(update={"thinking": trained | parts.card.thinking})
    tokenizer = BoundedTokenizer(parts.target, facts.config.vocab_size, all(card.thinking.values()))
    with _configured(parts.target):
        model = load_causal(parts.target, DTYPES[chosen.dtype], device, device_map)
        taps = tuple(dict.fromkeys(tap for plan in plans.values() for tap in plan.taps))
        if taps and not hasattr(model.get_decoder(), "layers"):
            raise RigError(f"The layers of a {model.config.model_type} cannot be tapped; name a drafter that reads "
                           "none.")
        target = TorchTarget(model, taps)
        rounded = enable_int4(target, chosen.dtype, parts.target)
        check_tree_verification(target)
    context.report("Reading the drafters …", None)
    drafters: dict[str, Drafter] = {}
    for name, plan in plans.items():
        with _configured(parts.drafters[name]):
            drafters[name] = plan.load(target)
    drafters[NGRAM] = NGramDrafter(target.config.vocab_size)
    origin = origin_of(parts.target)
    stop = tokenizer.stop_tokens({origin.file: origin.end_ids} if origin else {})
    switch = longrope_switch_length(target.config)
    ends = switch and (f"A text whose prompt has up to {switch:,} tokens ends at {switch:,} positions: longer ones are "
                       "turned by other angles (longrope), from their beginning on.")
    notes = tuple(note for note in (tokenizer.facts().note, stop.note, origin and origin.note, rounded, ends,
                                    *(plan.note for plan in plans.values())) if note)
    kinds = {NGRAM: NGRAM} | {name: plan.kind for name, plan in plans.items()}
    path = next((name for name, plan in plans.items() if plan.sees_path), NGRAM)
    return Rig(card, target, tokenizer, drafters, {PATH: path, NGRAM: NGRAM}, notes, precision=chosen,
               stop_ids=stop.ids, kinds=kinds)


def _planned(target: Path, drafters: Mapping[str, Path], block_sizes: Mapping[str, int]) -> tuple[
        PreTrainedConfig, TargetFacts, dict[str, DrafterPlan]]:
    """Return the target's config and the drafters' plans, from small files alone; RigError if they cannot run."""
    with _configured(target):
        config = causal_config(target)
        facts = TargetFacts(target, config.get_text_config())
    plans: dict[str, DrafterPlan] = {}
    for name, folder in drafters.items():
        with _configured(folder):
            plans[name] = plan_drafter(folder, replace(facts, block_size=block_sizes.get(name)))
    return config, facts, plans


@contextmanager
def _configured(folder: Path) -> Iterator[None]:
    """Turn any error that a wrong value in this folder's config.json causes into a RigError of one sentence."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except WRONG_KIND as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or "no value"
        raise RigError(f"config.json in {display_name(folder)} holds a value of the wrong kind "
                       f"({type(error).__name__}: {reason}); correct it, or choose another revision.") from error
