"""Rigs: a target, its tokenizer and the drafters that were trained for it, as one set of checkpoints, described by the
rig.json in a folder, the rig's card, or by a name, or as TARGET::DRAFTER."""

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError

from engine.checkpoints.files import display_name, first_line
from engine.checkpoints.gguf import origin_of
from engine.checkpoints.loading import causal_config, load_causal, load_tokenizer
from engine.checkpoints.memory import ALONE, Opening, places_of
from engine.checkpoints.sources import fetch, fetch_package
from engine.decoding.methods import PATH
from engine.decoding.plan import Drafter
from engine.drafters.kinds import DrafterPlan, NarrowedDrafter, TargetFacts, plan_drafter
from engine.drafters.ngram import NGramDrafter
from engine.errors import RigError
from engine.models.capture import CAPTURED
from engine.models.target import TorchTarget, must_verify_trees
from engine.records import Precision
from engine.requests.rig_names import (
    AUTO_DTYPE,
    DTYPE_NAMES,
    EXACTNESS,
    FOUR_BITS,
    JOINT,
    NAMED,
    NGRAM,
    RANDOM,
    RIGS_FOLDER,
    pair_of,
    rig_names,
)
from engine.serving.chat import chat_style
from engine.serving.precision import DTYPES, USUAL, enable_int4, precision, storage_of
from engine.serving.random_weights import MEANINGLESS, SEED, random_models, random_texts, shape_named
from engine.serving.rig import Rig

log = logging.getLogger("canopy.rigs")
WRONG_KIND = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RuntimeError, StrictDataclassError)

CARD = "rig.json"
TYPICAL_LENGTHS: Mapping[int, float] = MappingProxyType({1: 1.4, 3: 1.8, 7: 2.0, 16: 2.2})  # where no card says
KINDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "title": (str, "a text"), "drafters": (list, "a list of names"), "defaults": (dict, "an object of lists of names"),
    "revisions": (dict, "an object of texts"), "package": (dict, "an object of texts"),
    "good_at": (str, "a text"), "familiar_nats": ((int, float), "a number"),
    "familiar": (list, "a list of regular expressions"),
    "acceptance_lengths": (dict, "an object of numbers")}
NEEDED = ("title", "drafters", "defaults")
OLDER_NAME = "heads"  # of ``drafters``, in cards written before


@dataclass(frozen=True)
class RigParts:
    """What a rig is made of, before anything is loaded: its folders, and the drafters for methods of one and of two.
    ``acceptance_lengths`` are mean tokens per round by the node budget, as measured on prompts of its kind."""

    title: str
    target: Path
    drafters: Mapping[str, Path]
    defaults: Mapping[int, tuple[str, ...]]
    revisions: Mapping[str, str]
    good_at: str = ""
    familiar_nats: float = float("inf")
    familiar: tuple[str, ...] = ()
    acceptance_lengths: Mapping[int, float] = field(default_factory=lambda: TYPICAL_LENGTHS)


def load_rig(name: str, dtype: str = AUTO_DTYPE, device: str = "", opening: Opening = ALONE,
             concurrent: bool = False) -> Rig:
    """Load a rig by name, from a folder with a rig.json, or as TARGET::DRAFTER (see ``sources``), or make one of random
    weights (random:SHAPE). The dtype "auto" is the fastest on this processor (see ``precision``).

    RigError says what is missing or does not fit; where possible, before anything large is read.
    """
    if dtype not in DTYPE_NAMES:
        raise RigError(f"The dtype {dtype!r} is not supported; choose one of {', '.join(DTYPE_NAMES)}.")
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    try:
        rig = (_random_rig(name, dtype, place, opening) if name.startswith(RANDOM)
               else _loaded(rig_parts(name, opening), dtype, place, opening))
        if opening.capture:
            rig.target.capture()
        notes = (*rig.notes, CAPTURED) if opening.capture else rig.notes
        return replace(rig, opened=name, concurrent=concurrent, notes=notes)
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise RigError(f"The GPU ran out of memory while {name} was loaded ({first_line(error)}); choose a smaller "
                       "target, or free memory that other programs hold.") from error


def rig_parts(name: str, opening: Opening = ALONE) -> RigParts:
    """The parts of a rig by name; what is not on this machine is fetched. RigError where there is no such rig."""
    if name.startswith(RANDOM):
        raise RigError(f"The weights of {name[:200]} are made when the rig is opened, so there is nothing to fetch.")
    if name in NAMED or JOINT in name:
        return _pair_parts(name, opening)
    folder = next((place for place in (Path(name), RIGS_FOLDER / name) if has_card(place)), None)
    if folder is None:
        raise RigError(f"There is no rig {name[:200]!r}; there are {', '.join(rig_names())}, or name a folder that "
                       f"holds a rig.json, or a target and a drafter as TARGET{JOINT}DRAFTER.")
    return card_parts(folder, opening)


def _pair_parts(name: str, opening: Opening) -> RigParts:
    """A target and one or two drafters; with one, the n-gram drafter is the second drafter."""
    pair = pair_of(name)
    target = fetch(pair.target, opening.tell)
    drafters = {f"drafter {number}" if len(pair.drafters) > 1 else "drafter": fetch(place, opening.tell)
                for number, place in enumerate(pair.drafters, 1) if place != NGRAM}
    names = (*drafters, NGRAM)[:2]
    defaults: dict[int, tuple[str, ...]] = {1: names[:1]}
    if len(names) == 2:
        defaults[2] = names
    return RigParts(
        name if name in NAMED else target.label, target.folder,
        {name: drafter.folder for name, drafter in drafters.items()}, defaults,
        {"target": target.label, **{name: drafter.label for name, drafter in drafters.items()}})


def _random_rig(name: str, dtype: str, device: torch.device, opening: Opening) -> Rig:
    """The rig ``random:SHAPE``, in bfloat16 unless another dtype is named."""
    if dtype == FOUR_BITS:
        others = ", ".join(other for other in DTYPE_NAMES if other != FOUR_BITS)
        raise RigError(f"Random weights are not stored in 4 bits, so {name} has no {FOUR_BITS}; choose one of "
                       f"{others}.")
    chosen = USUAL if dtype == AUTO_DTYPE else dtype
    target, drafter = random_models(shape_named(name), storage_of(chosen), device, opening)
    log.warning("%s", MEANINGLESS)
    drafters: dict[str, Drafter] = {"drafter": drafter, NGRAM: NGramDrafter(target.config.vocab_size)}
    return Rig(name, target, random_texts(target.config.vocab_size), drafters, {1: ("drafter",), 2: tuple(drafters)},
               {"target": f"random, seed {SEED}"}, families=_families({}), notes=(MEANINGLESS,),
               precision=Precision(chosen, f"{chosen}: random weights have no fastest dtype; {EXACTNESS[chosen]}."))


def _loaded(parts: RigParts, dtype: str, device: torch.device, opening: Opening = ALONE) -> Rig:
    """Check configs and file headers, then load target and drafters."""
    with _configured(parts.target):
        config = causal_config(parts.target)
        facts = TargetFacts(parts.target, config.get_text_config())
    plans: dict[str, DrafterPlan] = {}
    for name, folder in parts.drafters.items():
        with _configured(folder):
            plans[name] = plan_drafter(folder, facts)
    with _configured(parts.target):
        chosen = precision(dtype, parts.target, device, opening, parts.acceptance_lengths)
        places = places_of([parts.target, *parts.drafters.values()], config, storage_of(chosen.dtype), device, opening)
    opening.tell(f"Reading the weights of {display_name(parts.target)} …", None)
    tokenizer = load_tokenizer(parts.target, facts.config.vocab_size)
    with _configured(parts.target):
        model = load_causal(parts.target, DTYPES[chosen.dtype], device, places)
        taps = tuple(dict.fromkeys(tap for plan in plans.values() for tap in plan.taps))
        if taps and not hasattr(model.get_decoder(), "layers"):
            raise RigError(f"The layers of a {model.config.model_type} cannot be tapped; name a drafter that reads "
                           "none.")
        target = TorchTarget(model, taps)
        enable_int4(target, chosen.dtype, parts.target)
        must_verify_trees(target)
    opening.tell("Reading the drafters …", None)
    drafters: dict[str, Drafter] = {}
    for name, plan in plans.items():
        with _configured(parts.drafters[name]):
            drafters[name] = _drafter(plan, target)
    drafters[NGRAM] = NGramDrafter(target.config.vocab_size)
    style = chat_style(tokenizer, [plan.thinking for plan in plans.values()])
    origin = origin_of(parts.target)
    return Rig(
        parts.title, target, tokenizer, drafters, parts.defaults, parts.revisions, parts.good_at, parts.familiar_nats,
        _families(plans), style, tuple(note for note in (style.note, origin and origin.note) if note),
        familiar=parts.familiar, precision=chosen)


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


def _families(plans: Mapping[str, DrafterPlan]) -> Mapping[str, str]:
    """The drafter for each family of methods, used where neither a person nor the number of drafters decides."""
    path = next((name for name, plan in plans.items() if plan.sees_path), NGRAM)
    return {PATH: path, NGRAM: NGRAM}


def _drafter(plan: DrafterPlan, target: TorchTarget) -> Drafter:
    """Load a plan's drafter; it is given only its own taps where the target is tapped for others too."""
    drafter = plan.load(target)
    if not plan.taps or plan.taps == target.taps:
        return drafter
    size = target.config.hidden_size
    columns = torch.cat([torch.arange(size) + size * target.taps.index(tap) for tap in plan.taps])
    return NarrowedDrafter(drafter, columns.to(target.device))


def has_card(folder: Path) -> bool:
    """Whether this folder holds a rig; False for a name that no folder can have."""
    try:
        return (folder / CARD).is_file()
    except (OSError, ValueError):
        return False


def card_parts(folder: Path, opening: Opening) -> RigParts:
    """The parts that a folder's card names; a target in a package is fetched. RigError says which field is missing or
    of the wrong kind."""
    card = _read(folder)
    names = _names(folder, "drafters", card["drafters"])
    defaults = {count: _names(folder, "defaults", chosen) for count, chosen in card["defaults"].items()}
    for count, chosen in defaults.items():
        if count not in ("0", "1", "2") or len(chosen) != int(count) or not {*chosen} <= {*names, NGRAM}:
            raise RigError(f"{CARD} in {display_name(folder)} has {str(chosen)[:60]} for {count[:20]!r} drafters under "
                           f"'defaults'; it has to be as many of {', '.join((*names, NGRAM))}, for \"1\" or \"2\".")
    target, package = folder / "target", card.get("package")
    if package and not target.is_dir():  # the container image has it there already
        target = fetch_package(folder.name, package, opening.tell)
    return RigParts(
        card["title"], target, {name: folder / name for name in names},
        {int(count): tuple(chosen) for count, chosen in defaults.items()},
        {str(name): str(value) for name, value in card.get("revisions", {}).items()}, card.get("good_at", ""),
        float(card.get("familiar_nats", "inf")), tuple(map(str, card.get("familiar", ()))),
        _lengths(folder, card.get("acceptance_lengths", {})))


def _read(folder: Path) -> dict[str, Any]:
    try:
        card = json.loads((folder / CARD).read_text(encoding="utf8"))
    except (OSError, ValueError, RecursionError) as error:
        raise RigError(f"{CARD} in {display_name(folder)} is not JSON: {first_line(error)}.") from error
    if not isinstance(card, dict):
        raise RigError(f"{CARD} in {display_name(folder)} holds a {type(card).__name__}; it has to be an object.")
    if OLDER_NAME in card:
        card = {"drafters": card[OLDER_NAME], **card}
    missing = [name for name in NEEDED if name not in card]
    if missing:
        raise RigError(f"{CARD} in {display_name(folder)} has no {missing[0]!r}.")
    for name, (kind, expected) in KINDS.items():
        value = card.get(name)
        if name in card and (not isinstance(value, kind) or isinstance(value, bool)):
            raise RigError(f"{CARD} in {display_name(folder)} has {str(value)[:60]!r} under {name!r}; it has to be "
                           f"{expected}.")
    return card


def _lengths(folder: Path, value: Mapping[str, Any]) -> Mapping[int, float]:
    """Acceptance lengths by budget; those that the card lacks are typical ones."""
    try:
        lengths = {int(nodes): float(length) for nodes, length in value.items()}
    except (TypeError, ValueError, OverflowError):
        lengths = {0: 0.0}
    if not all(1 <= length <= nodes + 1 for nodes, length in lengths.items()):
        raise RigError(f"{CARD} in {display_name(folder)} has {str(dict(value))[:60]!r} under 'acceptance_lengths'; it "
                       "has to hold tokens per round by node budget, each from 1 to the budget + 1.")
    return {**TYPICAL_LENGTHS, **lengths}


def _names(folder: Path, field: str, value: Any) -> list[str]:
    """A list of names of folders beside the card; RigError for any other value or path."""
    if not isinstance(value, list) or not all(
            isinstance(name, str) and name and Path(name).name == name for name in value):
        raise RigError(f"{CARD} in {display_name(folder)} has {str(value)[:60]!r} under {field!r}; it has to be a list "
                       "of names of folders beside it.")
    return value
