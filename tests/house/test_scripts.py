"""The browser's half keeps the house's sizes. Files are counted here; ESLint, which can tell where a function ends,
counts functions and parameters in ``make lint``, by the numbers that are compared here."""

import json
import re

from tests.house.reading import HOUSE, offenders
from tests.house.test_sizes import LONGEST_FILE, LONGEST_FUNCTION, MOST_PARAMETERS, NAMES_THAT_SAY_NOTHING, too_long

MOST_BRANCHES = 12  # of a function
SCRIPTS = sorted((HOUSE / "assets").rglob("*.js"))


def test_scripts_stay_small() -> None:
    assert offenders(SCRIPTS, too_long) == {}
    assert not NAMES_THAT_SAY_NOTHING & {path.stem for path in SCRIPTS}


def test_eslint_counts_by_the_same_numbers() -> None:
    rules = dict(re.findall(r'"([\w-]+)": \["error", (\d+)\]', (HOUSE / "eslint.config.js").read_text(encoding="utf8")))
    assert int(rules["complexity"]) <= MOST_BRANCHES
    assert rules["max-lines"] == str(LONGEST_FILE)
    assert rules["max-lines-per-function"] == str(LONGEST_FUNCTION)
    assert rules["max-params"] == str(MOST_PARAMETERS)


def test_the_checkers_are_pinned_and_name_no_registry() -> None:
    packages = json.loads((HOUSE / "package.json").read_text(encoding="utf8"))["devDependencies"]
    assert {"eslint", "typescript"} <= packages.keys()
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in packages.values())
    locked = json.loads((HOUSE / "package-lock.json").read_text(encoding="utf8"))["packages"]
    assert [name for name, each in locked.items() if "resolved" in each] == []
