"""From a family of functions to a corpus item: arguments, names and body are drawn; request, source, call and check
follow."""

from __future__ import annotations

import copy
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from string import Template

WORDS = (
    "apple", "river", "stone", "cloud", "lamp", "tiger", "green", "paper", "music", "ocean", "bread", "chair",
    "sun", "moon", "tree", "level", "noon", "bird", "glass", "road", "winter", "button", "silver", "cat",
    "dog",
    "idea", "orange", "echo", "union", "kayak", "hill", "spoon", "letter", "queen", "yellow", "otter", "ice",
)
PEOPLE = ("ana", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "june", "kai", "lena")


@dataclass(frozen=True)
class ArgumentKind:
    """One kind of argument: its Python type and the names it goes by."""

    type_name: str
    names: tuple[str, ...]


KINDS = {
    "numbers": ArgumentKind("list[int]", ("numbers", "values", "nums", "data", "series", "readings")),
    "signed": ArgumentKind("list[int]", ("numbers", "values", "nums", "data", "changes")),
    "others": ArgumentKind("list[int]", ("others", "second", "right", "weights")),
    "size": ArgumentKind("int", ("n", "limit", "size", "number")),
    "small": ArgumentKind("int", ("k", "step", "amount", "width")),
    "positive": ArgumentKind("int", ("a", "first", "left", "x")),
    "second": ArgumentKind("int", ("b", "other", "divisor", "y")),
    "word": ArgumentKind("str", ("word", "text", "string", "name")),
    "other_word": ArgumentKind("str", ("other", "second", "target")),
    "words": ArgumentKind("list[str]", ("words", "names", "terms", "labels")),
    "sentence": ArgumentKind("str", ("sentence", "text", "line", "phrase")),
    "letter": ArgumentKind("str", ("letter", "char", "symbol")),
    "scores": ArgumentKind("dict[str, int]", ("scores", "prices", "ages", "stock", "points")),
    "matrix": ArgumentKind("list[list[int]]", ("matrix", "grid", "rows", "table")),
    "pairs": ArgumentKind("list[tuple[str, int]]", ("pairs", "entries", "records")),
}


def _scalar(kind: str, random: random.Random) -> object:
    """Return a value of one of the kinds that are no collection."""
    if kind == "size":
        return random.randint(2, 12)
    if kind == "small":
        return random.randint(2, 5)
    if kind in ("positive", "second"):
        return random.randint(2, 24)
    if kind == "letter":
        return random.choice("aeinorst")
    if kind == "sentence":
        return " ".join(random.choice(WORDS) for _ in range(random.randint(2, 4)))
    return random.choice(WORDS)


def sample_value(kind: str, random: random.Random) -> object:
    """Return a fresh value of the named kind (a key of ``KINDS``), small enough to work out by hand."""
    length = random.randint(3, 5)
    if kind in ("numbers", "others"):
        return [random.randint(1, 15) for _ in range(length)]
    if kind == "signed":
        return [random.randint(-9, 12) for _ in range(length)]
    if kind == "words":
        return random.sample(WORDS, random.randint(2, 4))
    if kind == "scores":
        return {name: random.randint(1, 12) for name in random.sample(PEOPLE, random.randint(2, 4))}
    if kind == "pairs":
        return [(random.choice(PEOPLE[:4]), random.randint(1, 9)) for _ in range(length - 1)]
    if kind == "matrix":
        width = random.randint(2, 3)
        return [[random.randint(1, 9) for _ in range(width)] for _ in range(random.randint(2, 3))]
    return _scalar(kind, random)


def literal(value: object) -> str:
    """Return the Python source of a value, strings in double quotes."""
    text = repr(value)
    return text if '"' in text else text.replace("'", '"')


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
    """Return the function's source, with type hints where ``typed``."""
    if typed:
        arguments = ", ".join(f"{name}: {kind}" for name, kind in task.parameters)
        head = f"def {task.name}({arguments}) -> {task.returns}:"
    else:
        head = f"def {task.name}({', '.join(name for name, _ in task.parameters)}):"
    body = textwrap.indent(task.body.strip("\n"), "    ")
    return f'{head}\n    """{task.docstring}"""\n{body}'


def compile_function(source: str, name: str) -> Callable[..., object]:
    """Return the function of that name which the source defines."""
    namespace: dict[str, Callable[..., object]] = {}
    exec(compile(source, "<corpus>", "exec"), namespace)
    return namespace[name]


def call_of(task: FunctionTask, case: int) -> str:
    """Return the source of a call of the function with the arguments of one case."""
    return f"{task.name}({', '.join(literal(argument) for argument in task.cases[case])})"


def request_of(task: FunctionTask, typed: bool, random: random.Random) -> str:
    """Return a request for the function in natural wording, always with its signature."""
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
    """Return the fenced function with its example call, then the sentence with the value it prints.

    Raises ``AssertionError`` if the function and the separate evaluation disagree on any case.
    """
    source = source_of(task, typed)
    function = compile_function(source, task.name)
    for arguments, expected in zip(task.cases, task.expected, strict=True):
        value = function(*copy.deepcopy(arguments))
        if value != expected or type(value) is not type(expected):
            raise AssertionError(f"{task.family}: {arguments} gives {value!r}, not {expected!r}\n{source}")
    closing = closing.format(value=task.expected[0])
    return f"```python\n{source}\n\nprint({call_of(task, 0)})\n```\n{closing}"


def assertions_of(task: FunctionTask) -> str:
    """Return one assertion per case after the example."""
    lines = (
        f"assert {call_of(task, case)} == {literal(task.expected[case])}" for case in range(1,
                                                                                            len(task.cases))
    )
    return "\n".join(lines)


CASE_COUNT = 4  # the example and three assertions
MAX_PRINTED_LENGTH = 40  # characters
ATTEMPTS = 40

LOCAL_NAMES = {
    "item": ("value", "item", "current", "entry"),
    "total": ("total", "result", "answer", "running"),
    "count": ("count", "tally", "hits", "found"),
    "out": ("result", "output", "collected", "built"),
    "best": ("best", "top", "chosen", "winner"),
    "char": ("char", "character", "ch", "c"),
    "part": ("part", "piece", "token", "w"),
    "index": ("i", "index", "position", "j"),
}


@dataclass(frozen=True)
class Family:
    """One behaviour.

    ``behaviours`` and ``bodies`` are ``string.Template`` texts over the argument slots, the constants and the
    keys of ``LOCAL_NAMES``; ``bodies`` are pairs of hint and source; ``arguments`` pairs of slot and kind;
    ``constants`` pairs of slot and choices; ``$self`` in a body is
    the function's own name; ``reference`` takes the arguments, then the constants.
    """

    family: str
    names: tuple[str, ...]
    behaviours: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...]
    returns: str
    bodies: tuple[tuple[str, str], ...]
    reference: Callable[..., object]
    constants: tuple[tuple[str, tuple[object, ...]], ...] = ()


def _argument_names(family: Family, random: random.Random) -> dict[str, str]:
    """Return a distinct name for each argument slot."""
    chosen: dict[str, str] = {}
    for slot, kind in family.arguments:
        free = [name for name in KINDS[kind].names if name not in chosen.values()]
        chosen[slot] = random.choice(free)
    return chosen


def _local_names(taken: set[str], random: random.Random) -> dict[str, str]:
    """Return a distinct name for each local, none of which is an argument's."""
    chosen: dict[str, str] = {}
    for role, names in LOCAL_NAMES.items():
        free = [name for name in names if name not in taken]
        chosen[role] = random.choice(free)
        taken = taken | {chosen[role]}
    return chosen


def sample_cases(
    kinds: tuple[str, ...], evaluate: Callable[..., object], random: random.Random
) -> tuple[tuple[tuple[object, ...], ...], tuple[object, ...]]:
    """Draw four argument tuples and their values, the first with a short printed value that says something."""
    cases: list[tuple[object, ...]] = []
    values: list[object] = []
    for attempt in range(ATTEMPTS):
        arguments = tuple(sample_value(kind, random) for kind in kinds)
        value = evaluate(*copy.deepcopy(arguments))
        telling = value not in ("", None, [], {}) and len(str(value)) <= MAX_PRINTED_LENGTH
        if cases or telling or attempt > ATTEMPTS // 2:
            cases.append(arguments)
            values.append(value)
        if len(cases) == CASE_COUNT:
            break
    return tuple(cases), tuple(values)


def make_task(family: Family, random: random.Random) -> FunctionTask:
    """Make one task of the family, all choices drawn from ``random``."""
    slots: dict[str, object] = dict(_argument_names(family, random))
    argument_names = [str(slots[slot]) for slot, _ in family.arguments]
    constants = {slot: random.choice(choices) for slot, choices in family.constants}
    slots.update(_local_names(set(argument_names), random))
    slots.update(constants)
    name = slots["self"] = Template(random.choice(family.names)).substitute(slots)
    hint, body = random.choice(family.bodies)
    kinds = tuple(kind for _, kind in family.arguments)
    cases, values = sample_cases(kinds, lambda *a: family.reference(*a, *constants.values()), random)
    wordings = [Template(text).substitute(slots) for text in family.behaviours]
    return FunctionTask(
        family=family.family,
        name=name,
        parameters=tuple(zip(argument_names, (KINDS[kind].type_name for kind in kinds), strict=True)),
        returns=family.returns,
        behaviour=random.choice(wordings),
        docstring=docstring_of(random.choice(wordings)),
        hint=hint if random.random() < 0.6 else "",
        body=Template(body).substitute(slots),
        cases=cases,
        expected=values,
    )


def docstring_of(behaviour: str) -> str:
    """Return the behaviour as a docstring: its verb in the imperative, a capital letter and a full stop."""
    verb, _, rest = behaviour.partition(" ")
    verb = verb.removesuffix("s")
    return f"{verb[0].upper()}{verb[1:]} {rest}."
