"""From one described function to a corpus item: the request, the source, the call, the check."""

from __future__ import annotations

import copy
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

from engine.recipes.corpus.code_arguments import literal

MAXIMUM_RESPONSE_CHARACTERS = 700

REQUESTS = (
    "Write a Python function `{signature}` that {behaviour}",
    "Implement `{signature}`, which {behaviour}",
    "I need a function `{signature}` that {behaviour}",
    "Write `{signature}` in Python: it {behaviour}",
    "Please write a Python function `{signature}` that {behaviour}",
    "Define a function `{signature}` that {behaviour}",
    "Give me a short Python function `{signature}` that {behaviour}",
    "Write the function `{signature}`. It {behaviour}",
    "In Python, `{signature}` should {imperative}",
    "Complete this task in Python: `{signature}` {behaviour}",
)
CLOSINGS = (
    "It prints {value}.",
    "This prints {value}.",
    "The call prints {value}.",
    "The example prints {value}.",
    "Running this prints {value}.",
)


@dataclass(frozen=True)
class FunctionTask:
    """One function to write, with everything about it decided but the wording of the request.

    ``behaviour`` starts with a verb in the third person ("returns the ..."); ``parameters`` are pairs of name
    and type; ``body`` is unindented source; ``cases`` are argument tuples, the first being the example call;
    ``expected`` the values of a separate evaluation for the same cases.
    """

    family: str
    name: str
    parameters: tuple[tuple[str, str], ...]
    returns: str
    behaviour: str
    docstring: str
    hint: str
    body: str
    cases: tuple[tuple[object, ...], ...]
    expected: tuple[object, ...]


def source_of(task: FunctionTask, typed: bool) -> str:
    """The function's source, with type hints where ``typed``."""
    if typed:
        arguments = ", ".join(f"{name}: {kind}" for name, kind in task.parameters)
        head = f"def {task.name}({arguments}) -> {task.returns}:"
    else:
        head = f"def {task.name}({', '.join(name for name, _ in task.parameters)}):"
    body = textwrap.indent(task.body.strip("\n"), "    ")
    return f'{head}\n    """{task.docstring}"""\n{body}'


def compiled(source: str, name: str) -> Callable[..., object]:
    """The function of that name which the source defines."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(compile(source, "<corpus>", "exec"), namespace)
    return namespace[name]


def call_of(task: FunctionTask, case: int) -> str:
    """Source of a call of the function with the arguments of one case."""
    return f"{task.name}({', '.join(literal(argument) for argument in task.cases[case])})"


def request_of(task: FunctionTask, typed: bool, random: random.Random) -> str:
    """A request for the function in natural wording, always with its signature."""
    signature = f"{task.name}({', '.join(name for name, _ in task.parameters)})"
    verb, _, rest = task.behaviour.partition(" ")
    behaviour = task.behaviour
    separate = bool(task.hint) and random.random() < 0.4
    if task.hint and not separate:
        behaviour, rest = f"{behaviour}, {task.hint}", f"{rest}, {task.hint}"
    text = random.choice(REQUESTS).format(
        signature=signature, behaviour=behaviour, imperative=f"{verb.removesuffix('s')} {rest}"
    )
    parts = [text + "."]
    if separate:
        parts.append(f"Do it {task.hint}.")
    if typed and random.random() < 0.6:
        parts.append(random.choice(("Add type hints.", "Use type hints.", "Include types.")))
    if random.random() < 0.25:
        parts.append(random.choice(("Try it with `{}`.", "Show `{}`.")).format(call_of(task, 0)))
    return " ".join(parts)


def response_of(task: FunctionTask, typed: bool, closing: str) -> str:
    """The fenced function with its example call, then the sentence with the value it prints.

    Raises ``AssertionError`` where the function and the separate evaluation disagree on any case.
    """
    source = source_of(task, typed)
    function = compiled(source, task.name)
    for arguments, expected in zip(task.cases, task.expected, strict=True):
        found = function(*copy.deepcopy(arguments))
        if found != expected or type(found) is not type(expected):
            raise AssertionError(f"{task.family}: {arguments} gives {found!r}, not {expected!r}\n{source}")
    closing = closing.format(value=task.expected[0])
    return f"```python\n{source}\n\nprint({call_of(task, 0)})\n```\n{closing}"


def assertions_of(task: FunctionTask) -> str:
    """One assertion per case after the example."""
    lines = (
        f"assert {call_of(task, case)} == {literal(task.expected[case])}" for case in range(1,
                                                                                            len(task.cases))
    )
    return "\n".join(lines)
