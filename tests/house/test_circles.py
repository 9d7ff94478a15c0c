"""Rooms do not import each other in a circle. A room is a folder directly below ``engine/`` or ``explorer/``
with all that is in it; a file that lies directly in one of the two is for everybody, and a node by itself."""

from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.house.reading import HOUSE
from tests.house.test_layers import imports, sources

ROOTS = ("engine", "explorer")


def room(path: Path) -> str:
    """The room of a file, or the file where it lies in no room."""
    parts = path.relative_to(HOUSE).with_suffix("").parts
    return "/".join(parts[:2] if parts[0] in ROOTS else parts[:1])


@cache
def file_of(module: str) -> Path | None:
    """The file of a module of ours; None for a name in one, and for what is not ours."""
    place = HOUSE.joinpath(*module.split("."))
    found = [path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()]
    return found[0] if found else None


def graph(paths: list[Path]) -> dict[str, set[str]]:
    """Which rooms each room imports; an empty ``__init__`` is imported by everybody and imports nobody. The engine's
    is its door for other programs: what it opens is imported when they ask for it."""
    edges: dict[str, set[str]] = {}
    for path in [path for path in paths if path != HOUSE / "engine" / "__init__.py"]:
        imported = {room(other) for name in imports(path) if (other := file_of(name)) and other.stat().st_size}
        edges.setdefault(room(path), set()).update(imported - {room(path)})
    return edges


def circle(rooms: Mapping[str, set[str]]) -> list[str]:
    """The rooms of a circle in order, or none."""
    try:
        TopologicalSorter(rooms).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_rooms_import_each_other_in_a_circle() -> None:
    rooms = graph(sources("engine", "explorer"))
    assert {"app", "engine/decoding", "engine/models", "explorer/lab"} <= rooms.keys()
    assert circle(rooms) == []


def test_a_circle_is_seen() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}
