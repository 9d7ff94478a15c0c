"""The code domain: a request for one short Python function, and the function with an example call.

A function comes from a family, or is composed: it keeps some elements, changes them and brings them together."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.recipes.corpus.code_number_families import LIST_FAMILIES, NUMBER_FAMILIES
from engine.recipes.corpus.code_pipeline_parts import (
    CHARACTER_SOURCE,
    NUMBER_SOURCE,
    WORD_SOURCE,
    Change,
    Gather,
    Keep,
    ValueSource,
    fill,
)
from engine.recipes.corpus.code_tasks import (
    CLOSINGS,
    KINDS,
    MAXIMUM_RESPONSE_CHARACTERS,
    FunctionTask,
    assertions_of,
    docstring_of,
    make_task,
    request_of,
    response_of,
    sample_cases,
)
from engine.recipes.corpus.code_text_families import RECORD_FAMILIES, TEXT_FAMILIES
from engine.recipes.corpus.items import Item

SOURCES = (NUMBER_SOURCE, NUMBER_SOURCE, CHARACTER_SOURCE, WORD_SOURCE)
STYLES = ("loop", "skip", "line", "steps")
HINTS = {
    "loop": ("using a loop", "with a for loop"),
    "skip": ("using a loop with continue", "skipping the rest with continue"),
    "line": ("in one line", "as a single expression"),
    "steps": ("in two steps", "building a list first"),
}


@dataclass(frozen=True)
class Pipeline:
    """The parts of one composed function; ``keep`` and ``change`` may be the empty parts."""

    source: ValueSource
    keep: Keep
    change: Change
    gather: Gather
    argument: str
    item: str
    gathered: str


def _body(pipeline: Pipeline, style: str) -> str:
    """The function's unindented body in one of ``STYLES``."""
    test, item, gather = pipeline.keep.test, pipeline.item, pipeline.gather
    value = fill(pipeline.change.expression, x=item)
    if style in ("line", "steps"):
        stream = f"{value} for {item} in {pipeline.argument}" + (f" if {fill(test, x=item)}" if test else "")
        if style == "line":
            return "return " + fill(gather.line, stream=stream, listed=f"[{stream}]")
        name = pipeline.gathered if pipeline.gathered != pipeline.argument else "kept"
        return f"{name} = [{stream}]\nreturn " + fill(gather.line, stream=name, listed=name)
    lines = [f"{pipeline.gathered} = {gather.start}", f"for {item} in {pipeline.argument}:"]
    step = fill(gather.step, acc=pipeline.gathered, e=value).split("\n")
    if style == "skip":
        lines += [f"    if {fill(pipeline.keep.opposite, x=item)}:", "        continue"]
    elif test:
        lines.append(f"    if {fill(test, x=item)}:")
    indent = "        " if test and style == "loop" else "    "
    lines += [indent + line for line in step]
    return "\n".join([*lines, "return " + fill(gather.finish, acc=pipeline.gathered)])


def _behaviour(pipeline: Pipeline, wording: int) -> str:
    """What the function does, in the third person."""
    things = fill(pipeline.keep.phrases[wording % len(pipeline.keep.phrases)], arg=pipeline.argument)
    if pipeline.change.phrases:
        things = fill(pipeline.change.phrases[wording % len(pipeline.change.phrases)], things=things)
    phrases = pipeline.gather.phrases
    return fill(phrases[wording % len(phrases)], things=things)


def _name(pipeline: Pipeline, random: random.Random) -> str:
    """A name from the stems of the parts, in one of a few orders."""
    stems = [pipeline.gather.stem, pipeline.change.stem, pipeline.keep.stem]
    if random.random() < 0.25:
        stems = [random.choice(("get", "compute", "find", "make", "build")), *stems]
    if random.random() < 0.3:
        stems.append(random.choice(pipeline.source.nouns))
    return "_".join(stem for stem in stems if stem)


def _parts(random: random.Random) -> Pipeline:
    """A source and its parts, at least one of keep and change being there."""
    source = random.choice(SOURCES)
    constant = random.choice(source.constants)
    gather = random.choice(source.gathers)
    shape = random.choice(("keep", "change", "both", "both")) if gather.takes_change else "keep"
    keep = random.choice(source.keeps[1:]) if shape != "change" else source.keeps[0]
    changes = [part for part in source.changes[1:] if part.kind in gather.accepts]
    change = random.choice(changes) if shape != "keep" and changes else source.changes[0]
    if not change.phrases and not keep.test:
        keep = random.choice(source.keeps[1:])
    names = [name for name in KINDS[source.kind].names if name != "line"]
    return Pipeline(
        source,
        keep.with_constant(constant),
        change.with_constant(random.choice(source.constants)),
        gather,
        random.choice(names),
        random.choice(source.items),
        random.choice(gather.locals),
    )


def _evaluator(pipeline: Pipeline) -> Callable[[Iterable[Any]], object]:
    """A separate evaluation of the pipeline, straight from the meaning of its parts."""
    keep, change, gather = pipeline.keep, pipeline.change, pipeline.gather

    def evaluate(collection: Iterable[Any]) -> object:
        kept = [element for element in collection if keep.meaning(element, keep.constant)]
        return gather.meaning([change.meaning(element, change.constant) for element in kept])

    return evaluate


def make_pipeline(random: random.Random) -> FunctionTask:
    """One composed function with its example and check cases."""
    pipeline = _parts(random)
    styles = [style for style in STYLES if style != "skip" or pipeline.keep.test]
    style = random.choice(styles)
    cases, values = sample_cases((pipeline.source.kind,), _evaluator(pipeline), random)
    parts = [pipeline.source.kind, pipeline.gather.stem]
    parts += ["keep"] * bool(pipeline.keep.test) + ["change"] * bool(pipeline.change.phrases)
    returns = pipeline.gather.returns.replace("E", pipeline.change.kind)
    return FunctionTask(
        family="_".join(parts),
        name=_name(pipeline, random),
        parameters=((pipeline.argument, KINDS[pipeline.source.kind].type_name),),
        returns=returns,
        behaviour=_behaviour(pipeline, random.randrange(12)),
        docstring=docstring_of(_behaviour(pipeline, random.randrange(12))),
        hint=random.choice(HINTS[style]) if random.random() < 0.6 else "",
        body=_body(pipeline, style),
        cases=cases,
        expected=values,
    )


PIPELINE_SHARE = 0.45  # of the tasks are composed from a filter, a map and a reduction
FAMILIES = LIST_FAMILIES + NUMBER_FAMILIES + TEXT_FAMILIES + RECORD_FAMILIES


def draw_task(random: random.Random) -> FunctionTask:
    """One function to write, composed or from the families."""
    if random.random() < PIPELINE_SHARE:
        return make_pipeline(random)
    return make_task(random.choice(FAMILIES), random)


def make_code(random: random.Random) -> Item:
    """One item of the code domain; its check is three assertions on fresh arguments."""
    while True:
        task = draw_task(random)
        typed = random.random() < 0.5
        prompt = request_of(task, typed, random)
        response = response_of(task, typed, random.choice(CLOSINGS))
        if len(response) <= MAXIMUM_RESPONSE_CHARACTERS:
            return Item("code", prompt, response, assertions_of(task))
