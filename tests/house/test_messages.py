"""Every error that a person can meet is one sentence: what is wrong, what was seen or what can be done about it."""

import ast
import re
from collections.abc import Iterable, Iterator

from engine import errors
from tests.house.reading import HOUSE, nodes, sources

MEANT = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.CanopyError)}
VALUE = "\ufffc"  # stands for what is inserted while the program runs
SENTENCE = "\ufffd"  # and this for an error's own words, which end with a full stop of theirs
NOBODYS_FAULT = "CancellationError"
# A sentence begins with a capital, with a value, or with the name of a field, a flag or a file as it is written.
BEGINNING = re.compile(rf"[A-Z{VALUE}{SENTENCE}]|--\w|[\w]+[._-]\w")
WAY_OUT = re.compile(r"[;:]|, so ")  # after it stands what to do, or what is there instead


def template(node: ast.expr) -> str:
    """A message as it is written, with ``VALUE`` for every part that is made while the program runs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return template(node.left) + template(node.right)
    return SENTENCE if isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == "error" else VALUE


def raised(read: Iterable[ast.AST]) -> Iterator[tuple[int, str, str]]:
    """The line, class and message of every error of ours that these nodes raise."""
    for node in read:
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            name = ast.unparse(node.exc.func)
            if name in MEANT:
                yield node.lineno, name, template(node.exc.args[0])


def faults(name: str, message: str) -> list[str]:
    """What is wrong with a message; one that is a value as a whole was written elsewhere."""
    if message == VALUE:
        return []
    checks = {
        "does not begin like a sentence": not BEGINNING.match(message),
        "does not end with one full stop": not re.search(rf"(?<!\.)\.$|{SENTENCE}$", message),
        "is more than one sentence": bool(re.search(r"\. [A-Z]", message)),
        "shouts, or has a second line": "!" in message or "\n" in message,
        "has blanks that nobody wants": "  " in message or message != message.strip(),
        "names nothing that was seen and no way out":
            name != NOBODYS_FAULT and not {VALUE, SENTENCE} & set(message) and not WAY_OUT.search(message),
    }
    return [fault for fault, is_there in checks.items() if is_there]


MESSAGES = [(f"{path.relative_to(HOUSE)}:{line}", name, message) for path in sources("engine", "explorer")
         for line, name, message in raised(nodes(path))]


def test_an_error_is_one_sentence() -> None:
    wrong = {f"{line}: {message.replace(VALUE, '…').replace(SENTENCE, '…')}": against
             for line, name, message in MESSAGES if (against := faults(name, message))}
    assert wrong == {}


def test_the_check_sees_what_it_should() -> None:
    text = 'def f():\n    raise RequestError(f"The budget is {3!r}; " + "write less.")\nraise ValueError("no")'
    assert list(raised(ast.walk(ast.parse(text)))) == [(2, "RequestError", f"The budget is {VALUE}; write less.")]
    assert len(MESSAGES) > 150 and {"RequestError", "RigError", "TraceError"} <= MEANT
    for good in (f"The budget is {VALUE}.", f"max_tokens is {VALUE}.", "Nothing is there; make some.", VALUE):
        assert not faults("RequestError", good), good
    for bad in ("the budget is wrong; write less.", f"The budget is {VALUE}", f"No! It is {VALUE}.", "It is wrong.",
                f"It is {VALUE}. Write less.", f"It is {VALUE}..", f"It is\n{VALUE}.", f"It  is {VALUE}."):
        assert faults("RequestError", bad), bad
