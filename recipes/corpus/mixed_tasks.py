"""The mixed domain: a word problem worked out in numbers, then a function that solves it for any numbers."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from recipes.corpus.code_tasks import CLOSINGS, FunctionTask, assertions_of, response_of
from recipes.corpus.items import Item, lists, rows
from recipes.corpus.math_problems import MIN_RESULT, work_out

WORDS = lists("mixed_words")
NAMES, THINGS, BOXES, PLACES = WORDS["names"], WORDS["things"], WORDS["boxes"], WORDS["places"]


@dataclass(frozen=True)
class TaskStep:
    """One operation: its result's name, the operator, both operands, and sentences that state it."""

    result: str
    operator: str
    left: str
    right: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A story over ``$`` slots (parameters, and N, M, T, B, P for names, thing, container, place).

    ``parameters`` are (name, lowest, highest); ``purpose`` completes "a function that returns ...".
    """

    family: str
    names: tuple[str, ...]
    stories: tuple[str, ...]
    parameters: tuple[tuple[str, int, int], ...]
    steps: tuple[TaskStep, ...]
    purpose: tuple[str, ...]


def problem_of(steps: tuple[Mapping[str, Any], ...], **fields: Any) -> Problem:
    """Return a row of the table."""
    return Problem(steps=tuple(TaskStep(**step) for step in steps), **fields)


PROBLEMS = rows("mixed_problems", problem_of)


CASE_COUNT = 4  # the example and three assertions

REQUESTS = (
    "Solve this, then write a Python function `{signature}` that returns {purpose}.",
    "Work it out and write a Python function `{signature}` that solves it for any numbers.",
    "Show the steps, then give a function `{signature}` in Python for any such numbers.",
    "Answer first, then write `{signature}` in Python, which returns {purpose}.",
    "Then write a Python function `{signature}` that returns {purpose}.",
    "Also implement `{signature}` in Python, so that it works for any numbers.",
)


def equation(left: int, sign: str, right: int) -> str:
    """Return the equation in full; unlike in word problems, only products are split into tens and ones."""
    worked = work_out(left, sign, right)
    assert worked is not None, "no other numbers are drawn"
    return worked.text if sign == "*" else f"{left} {sign} {right} = {worked.value}"


def worked_values(problem: Problem, arguments: dict[str, int]) -> dict[str, int]:
    """Return the arguments and the result of every step by name; empty if a step is not easy."""
    values = dict(arguments)
    for step in problem.steps:
        worked = work_out(values[step.left], step.operator, values[step.right])
        if worked is None or worked.value < MIN_RESULT:
            return {}
        values[step.result] = worked.value
    return values


def _sample(problem: Problem, random: random.Random) -> dict[str, int]:
    """Draw numbers for the story with which every step is easy."""
    while True:
        arguments = {name: random.randint(low, high) for name, low, high in problem.parameters}
        values = worked_values(problem, arguments)
        if values:
            return values


def _expression(problem: Problem) -> str:
    """Return all steps nested into one Python expression."""
    written = {name: name for name, _, _ in problem.parameters}
    for step in problem.steps:
        sign = step.operator.replace("/", "//")
        operands = []
        for name in (step.left, step.right):
            bare = written[name].isidentifier() or (sign == "+" and "//" not in written[name])
            operands.append(written[name] if bare else f"({written[name]})")
        written[step.result] = f"{operands[0]} {sign} {operands[1]}"
    return written[problem.steps[-1].result]


def _body(problem: Problem, style: str) -> str:
    """Return the function's body: one expression, or a line per step with or without a name for the last."""
    if style == "line":
        return f"return {_expression(problem)}"
    signs = [step.operator.replace("/", "//") for step in problem.steps]
    lines = [
        f"{step.result} = {step.left} {sign} {step.right}"
        for step, sign in zip(problem.steps, signs, strict=True)
    ]
    if style == "named":
        return "\n".join([*lines, f"return {problem.steps[-1].result}"])
    return "\n".join([*lines[:-1], "return " + lines[-1].split(" = ")[1]])


def _worked(
    problem: Problem, values: dict[str, int], words: dict[str, object], random: random.Random
) -> str:
    """Return the solution in sentences with an equation each, and the line with the answer."""
    sentences = []
    for step in problem.steps:
        text = equation(values[step.left], step.operator, values[step.right])
        sentences.append(Template(random.choice(step.sentences)).substitute(words, **values, eq=text) + ".")
    return " ".join(sentences) + f"\nAnswer: {values[problem.steps[-1].result]}"


def _task(
    problem: Problem, cases: list[dict[str, int]], words: dict[str, object], random: random.Random
) -> FunctionTask:
    """Return the function to write, its parameters in any order."""
    style, hint = random.choice((("line", "in one line"), ("named", "step by step"), ("direct", "")))
    parameters = [name for name, _, _ in problem.parameters]
    if random.random() < 0.5:
        random.shuffle(parameters)
    purpose = Template(random.choice(problem.purpose)).substitute(words)
    return FunctionTask(
        family=problem.family,
        name=random.choice(problem.names),
        parameters=tuple((name, "int") for name in parameters),
        returns="int",
        behaviour=f"returns {purpose}",
        docstring=f"Return {purpose}.",
        hint=hint,
        body=_body(problem, style),
        cases=tuple(tuple(case[name] for name in parameters) for case in cases),
        expected=tuple(case[problem.steps[-1].result] for case in cases),
    )


def make_mixed(random: random.Random) -> Item:
    """Make one item of the mixed domain; its check is three assertions on fresh numbers."""
    problem = random.choice(PROBLEMS)
    cases = [_sample(problem, random) for _ in range(CASE_COUNT)]
    first, second = random.sample(NAMES, 2)
    words: dict[str, object] = {"N": first, "M": second, "T": random.choice(THINGS)}
    words.update(B=random.choice(BOXES), P=random.choice(PLACES))
    task = _task(problem, cases, words, random)
    typed = random.random() < 0.5
    signature = f"{task.name}({', '.join(name for name, _ in task.parameters)})"
    story = Template(random.choice(problem.stories)).substitute(words, **cases[0])
    request = random.choice(REQUESTS).format(signature=signature,
                                             purpose=task.behaviour.removeprefix("returns "))
    parts = [story, request]
    if task.hint and random.random() < 0.5:
        parts.append(f"Write it {task.hint}.")
    if typed and random.random() < 0.6:
        parts.append("Add type hints.")
    worked = _worked(problem, cases[0], words, random)
    response = f"{worked}\n\n{response_of(task, typed, random.choice(CLOSINGS))}"
    return Item("mixed", " ".join(parts), response, assertions_of(task))
