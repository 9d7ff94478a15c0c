"""Functions composed of a filter, a transform and a reduction of a collection's elements.

The parts' texts are in assets/demo/corpus/, by collection: numbers, characters and words. Here each part is implemented
once more, in another way than its source.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from string import Template
from types import MappingProxyType
from typing import Any

from recipes.corpus.code_tasks import KINDS, FunctionTask, docstring_of, sample_cases
from recipes.corpus.items import rows

# By the part's stem; x is an element, k the constant.
FILTERS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType({
    "": lambda x, k: True,
    "even": lambda x, k: x % 2 == 0,
    "odd": lambda x, k: x % 2 == 1,
    "above_$k": lambda x, k: x > k,
    "below_$k": lambda x, k: x < k,
    "from_$k": lambda x, k: x >= k,
    "up_to_$k": lambda x, k: x <= k,
    "multiples_of_$k": lambda x, k: x % k == 0,
    "not_by_$k": lambda x, k: x % k != 0,
    "positive": lambda x, k: x > 0,
    "negative": lambda x, k: x < 0,
    "not_$k": lambda x, k: x != k,
    "vowels": lambda x, k: "aeiou".count(x) > 0,
    "non_vowels": lambda x, k: "aeiou".count(x) == 0,
    "before_$k": lambda x, k: ord(x) < ord(k),
    "after_$k": lambda x, k: ord(x) > ord(k),
    "with_$k": lambda x, k: x.count(k) > 0,
    "without_$k": lambda x, k: x.count(k) == 0,
    "ending_$k": lambda x, k: x[-1] == k,
    "not_starting_$k": lambda x, k: x[0] != k,
    "short": lambda x, k: len(x) < 5,
    "long": lambda x, k: len(x) > 4,
    "even_length": lambda x, k: len(x) in (2, 4, 6, 8),
    "odd_length": lambda x, k: len(x) in (1, 3, 5, 7),
})
TRANSFORMS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType({
    "": lambda x, k: x,
    "squared": lambda x, k: x**2,
    "doubled": lambda x, k: x + x,
    "times_$k": lambda x, k: x * k,
    "plus_$k": lambda x, k: x + k,
    "minus_$k": lambda x, k: x - k,
    "absolute": lambda x, k: max(x, -x),
    "negated": lambda x, k: 0 - x,
    "mod_$k": lambda x, k: x - k * (x // k),
    "capped_$k": lambda x, k: k if x > k else x,
    "upper": lambda x, k: "".join(chr(ord(c) - 32) for c in x),
    "twice": lambda x, k: x + x,
    "starred": lambda x, k: f"{x}*",
    "marked_$k": lambda x, k: f"{k}{x}",
    "backward": lambda x, k: "".join(reversed(x)),
    "lengths": lambda x, k: sum(1 for _ in x),
    "initials": lambda x, k: next(iter(x)),
    "endings": lambda x, k: list(x).pop(),
    "capitalized": lambda x, k: x[0].upper() + x[1:],
    "prefixes": lambda x, k: "".join(list(x)[:3]),
    "count_$k": lambda x, k: sum(1 for c in x if c == k),
})
REDUCTIONS: Mapping[str, Callable[[list[Any]], Any]] = MappingProxyType({
    "count": len,
    "list": list,
    "distinct": lambda v: sorted(dict.fromkeys(v)),
    "reversed": lambda v: list(reversed(v)),
    "sum": sum,
    "largest": lambda v: sorted(v)[-1] if v else 0,
    "smallest": lambda v: sorted(v)[0] if v else 0,
    "joined": lambda v: "-".join(map(str, v)),
    "ordered": sorted,
    "string": "".join,
    "backwards": lambda v: "".join(reversed(v)),
    "spaced": " ".join,
    "dashed": "-".join,
    "comma": ",".join,
    "plus": "+".join,
})
STYLES = ("loop", "skip", "line", "steps")
HINTS = {
    "loop": ("using a loop", "with a for loop"),
    "skip": ("using a loop with continue", "skipping the rest with continue"),
    "line": ("in one line", "as a single expression"),
    "steps": ("in two steps", "building a list first"),
}


def fill(text: str, **slots: object) -> str:
    """Fill a template's slots; unknown ones stay."""
    return Template(text).safe_substitute(slots)


@dataclass(frozen=True)
class Filter:
    """Keeps some elements: name stem, phrases for those, source of the test and of its opposite."""

    stem: str
    phrases: tuple[str, ...]
    test: str
    opposite: str


@dataclass(frozen=True)
class Transform:
    """Changes each element: name stem, phrases, result type, source."""

    stem: str
    phrases: tuple[str, ...]
    kind: str
    expression: str


@dataclass(frozen=True)
class Reduction:
    """Reduces elements to a value: name stem, phrases, the loop's start, step and finish, the one-line form, types."""

    stem: str
    phrases: tuple[str, ...]
    start: str
    step: str
    line: str
    returns: str
    locals: tuple[str, ...]
    accepts: tuple[str, ...] = ("int", "str")
    finish: str = "$acc"
    takes_change: bool = True


@dataclass(frozen=True)
class ValueSource:
    """A kind of collection with the parts that suit it; its first filter and transform do nothing."""

    kind: str
    items: tuple[str, ...]
    nouns: tuple[str, ...]
    constants: tuple[object, ...]
    keeps: tuple[Filter, ...]
    changes: tuple[Transform, ...]
    gathers: tuple[Reduction, ...]


def source_of(keeps: Iterable[Mapping[str, Any]], changes: Iterable[Mapping[str, Any]],
              gathers: Iterable[Mapping[str, Any]], **fields: Any) -> ValueSource:
    """Return a row of the table."""
    return ValueSource(keeps=tuple(Filter(**row) for row in keeps), changes=tuple(Transform(**row) for row in changes),
                       gathers=tuple(Reduction(**row) for row in gathers), **fields)


NUMBERS, CHARACTERS, WORDS = rows("code_pipelines", source_of)
SOURCES = (NUMBERS, NUMBERS, CHARACTERS, WORDS)  # numbers twice as often


@dataclass(frozen=True)
class Pipeline:
    """The parts of one composed function, their constants filled in; ``keep`` and ``change`` may do nothing.
    ``meaning`` computes the result from the collection."""

    source: ValueSource
    keep: Filter
    change: Transform
    gather: Reduction
    meaning: Callable[[Iterable[Any]], object]
    argument: str
    item: str
    accumulator: str


def _body(pipeline: Pipeline, style: str) -> str:
    """Return the function's unindented body in one of ``STYLES``."""
    test, item, gather = pipeline.keep.test, pipeline.item, pipeline.gather
    value = fill(pipeline.change.expression, x=item)
    if style in ("line", "steps"):
        stream = f"{value} for {item} in {pipeline.argument}" + (f" if {fill(test, x=item)}" if test else "")
        if style == "line":
            return "return " + fill(gather.line, stream=stream, listed=f"[{stream}]")
        name = pipeline.accumulator if pipeline.accumulator != pipeline.argument else "kept"
        return f"{name} = [{stream}]\nreturn " + fill(gather.line, stream=name, listed=name)
    lines = [f"{pipeline.accumulator} = {gather.start}", f"for {item} in {pipeline.argument}:"]
    step = fill(gather.step, acc=pipeline.accumulator, e=value).split("\n")
    if style == "skip":
        lines += [f"    if {fill(pipeline.keep.opposite, x=item)}:", "        continue"]
    elif test:
        lines.append(f"    if {fill(test, x=item)}:")
    indent = "        " if test and style == "loop" else "    "
    lines += [indent + line for line in step]
    return "\n".join([*lines, "return " + fill(gather.finish, acc=pipeline.accumulator)])


def _behaviour(pipeline: Pipeline, wording: int) -> str:
    """Describe what the function does, in the third person."""
    things = fill(pipeline.keep.phrases[wording % len(pipeline.keep.phrases)], arg=pipeline.argument)
    if pipeline.change.phrases:
        things = fill(pipeline.change.phrases[wording % len(pipeline.change.phrases)], things=things)
    phrases = pipeline.gather.phrases
    return fill(phrases[wording % len(phrases)], things=things)


def _name(pipeline: Pipeline, random: random.Random) -> str:
    """Return a name from the stems of the parts, in one of a few orders."""
    stems = [pipeline.gather.stem, pipeline.change.stem, pipeline.keep.stem]
    if random.random() < 0.25:
        stems = [random.choice(("get", "compute", "find", "make", "build")), *stems]
    if random.random() < 0.3:
        stems.append(random.choice(pipeline.source.nouns))
    return "_".join(stem for stem in stems if stem)


def _draw_parts(random: random.Random) -> Pipeline:
    """Draw a source and its parts, with a filter or a transform that does something."""
    source = random.choice(SOURCES)
    filter_constant = random.choice(source.constants)
    gather = random.choice(source.gathers)
    shape = random.choice(("keep", "change", "both", "both")) if gather.takes_change else "keep"
    keep = random.choice(source.keeps[1:]) if shape != "change" else source.keeps[0]
    changes = [part for part in source.changes[1:] if part.kind in gather.accepts]
    change = random.choice(changes) if shape != "keep" and changes else source.changes[0]
    if not change.phrases and not keep.test:
        keep = random.choice(source.keeps[1:])
    names = [name for name in KINDS[source.kind].names if name != "line"]
    transform_constant = random.choice(source.constants)

    def meaning(collection: Iterable[Any]) -> object:
        kept = [element for element in collection if FILTERS[keep.stem](element, filter_constant)]
        return REDUCTIONS[gather.stem]([TRANSFORMS[change.stem](element, transform_constant) for element in kept])

    filled_filter = replace(
        keep, stem=fill(keep.stem, k=filter_constant),
        phrases=tuple(fill(phrase, k=filter_constant) for phrase in keep.phrases),
        test=fill(keep.test, k=filter_constant), opposite=fill(keep.opposite, k=filter_constant))
    filled_transform = replace(
        change, stem=fill(change.stem, k=transform_constant), expression=fill(change.expression, k=transform_constant),
        phrases=tuple(fill(phrase, k=transform_constant) for phrase in change.phrases))
    return Pipeline(source, filled_filter, filled_transform, gather, meaning, random.choice(names),
                    random.choice(source.items), random.choice(gather.locals))


def make_pipeline(random: random.Random) -> FunctionTask:
    """Make one composed function with its example and check cases."""
    pipeline = _draw_parts(random)
    styles = [style for style in STYLES if style != "skip" or pipeline.keep.test]
    style = random.choice(styles)
    cases, values = sample_cases((pipeline.source.kind,), pipeline.meaning, random)
    parts = [pipeline.source.kind, pipeline.gather.stem]
    parts += ["keep"] * bool(pipeline.keep.test) + ["change"] * bool(pipeline.change.phrases)
    return FunctionTask(
        family="_".join(parts),
        name=_name(pipeline, random),
        parameters=((pipeline.argument, KINDS[pipeline.source.kind].type_name),),
        returns=pipeline.gather.returns.replace("E", pipeline.change.kind),
        behaviour=_behaviour(pipeline, random.randrange(12)),
        docstring=docstring_of(_behaviour(pipeline, random.randrange(12))),
        hint=random.choice(HINTS[style]) if random.random() < 0.6 else "",
        body=_body(pipeline, style),
        cases=cases,
        expected=values,
    )
