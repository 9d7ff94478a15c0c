"""The lock has every runtime package in the version that is tested, each with its hashes."""

import re
from importlib.metadata import version

from tests.house.reading import HOUSE
from tests.house.test_requirements import asked_for

LOCK = (HOUSE / "requirements.lock").read_text(encoding="utf8")
LOCKED = {found[1]: (found[2], found[3]) for found in re.finditer(
    r"^([a-z0-9.-]+)==([^\s\\]+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", LOCK, re.MULTILINE)}


def test_every_package_is_locked_with_its_hashes() -> None:
    asked = {made.name.lower().replace("_", "-") for made in asked_for("requirements.txt").values()}
    assert asked - set(LOCKED) == {"torch"}, "renew it with `make lock`"
    assert all(made.specifier.contains(LOCKED[name][0]) for made in asked_for("requirements.txt").values()
               if (name := made.name.lower().replace("_", "-")) in LOCKED)
    assert len(LOCKED) > 50 and LOCK.count("--hash") == sum(hashes.count("--hash") for _, hashes in LOCKED.values())


def test_it_names_no_place() -> None:
    assert "://" not in LOCK and "index-url" not in LOCK and "@" not in LOCK


def test_what_is_installed_is_what_is_locked() -> None:
    assert {name: version(name) for name in LOCKED} == {name: locked for name, (locked, _) in LOCKED.items()}
