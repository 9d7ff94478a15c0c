"""The Dockerfile without a container engine: read, checked, and its steps run in order in a folder of their own."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from engine.machine.threads import NUMBER, WAITING
from tests.running import PORT, served

HOUSE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Step:
    """One instruction and what stands behind it."""

    verb: str
    rest: str


def steps() -> list[Step]:
    """The instructions in order, continued lines joined, comments left out."""
    text = re.sub(r"\\\n\s*", "", (HOUSE / "Dockerfile").read_text(encoding="utf8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Step(*line.split(maxsplit=1)) for line in lines]


def number_of(verb: str, part: str = "") -> int:
    """The number of the first such instruction."""
    return next(number for number, step in enumerate(steps()) if step.verb == verb and part in step.rest)


def copied() -> list[tuple[list[str], str]]:
    """(sources, destination) of every COPY."""
    words = [shlex.split(step.rest) for step in steps() if step.verb == "COPY"]
    return [([word for word in line[:-1] if not word.startswith("--")], line[-1]) for line in words]


def test_every_instruction_is_one() -> None:
    known = {"FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {step.verb for step in steps()} <= known
    assert steps()[0].verb == "FROM" and re.fullmatch(r"python:3\.\d+-slim(@sha256:[0-9a-f]{64})?", steps()[0].rest)


def test_a_change_of_code_installs_nothing_again() -> None:
    last_install = max(number for number, step in enumerate(steps()) if "pip install" in step.rest)
    first_code = min(number_of("COPY", name) for name in ("engine", "explorer", "app.py", "assets"))
    assert number_of("RUN", "torch") < number_of("COPY", "requirements.lock") < last_install < first_code
    assert number_of("COPY", "assets") < number_of("COPY", "engine") < number_of("COPY", "app.py")


def test_the_image_has_the_versions_that_are_tested() -> None:
    pinned = re.findall(r"torch==[\d.]+", (HOUSE / "Dockerfile").read_text())
    assert set(pinned) == set(re.findall(r"torch==[\d.]+", (HOUSE / "Makefile").read_text()))
    assert set(pinned) == set(re.findall(r"^torch==[\d.]+", (HOUSE / "requirements.txt").read_text(), re.MULTILINE))


def test_nobody_is_root_where_the_page_is_served() -> None:
    users = [step.rest for step in steps() if step.verb == "USER"]
    assert users and users[-1] not in ("root", "0")
    assert any(users[-1] in step.rest and "useradd" in step.rest for step in steps()[:number_of("USER")])
    assert number_of("USER") < number_of("ENTRYPOINT")
    for step in steps():
        assert step.verb != "COPY" or "requirements.txt" in step.rest or f"--chown={users[-1]}" in step.rest


def test_what_the_lab_measured_lies_in_the_volume() -> None:
    (volume,) = (step.rest for step in steps() if step.verb == "VOLUME")
    assert Path(command()[command().index("--results") + 1]).parent == Path(volume)


def settings() -> dict[str, str]:
    """The environment that the image sets."""
    return dict(pair.split("=", 1) for step in steps() if step.verb == "ENV" for pair in shlex.split(step.rest))


def test_the_same_image_asks_for_a_gpu_and_threads_wait_in_it_as_they_do_everywhere() -> None:
    gpu = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    assert {**gpu, **WAITING}.items() <= settings().items()
    assert not set(NUMBER) & set(settings()), "how many there are is the machine's business"


def command() -> list[str]:
    """The words that the image runs."""
    return [word for verb in ("ENTRYPOINT", "CMD") for word in json.loads(
        next(step.rest for step in steps() if step.verb == verb))]


def test_the_image_serves_what_make_run_serves() -> None:
    recipe = (HOUSE / "Makefile").read_text().split("\nrun: setup\n\t", 1)[1].splitlines()[0]
    bare = re.sub(r"\$\(if [^()]*(\([^()]*\)[^()]*)*\)|\$\(ARGS\)", "", recipe).split()
    assert bare == ["$(BIN)/python", "app.py"] and command()[:2] == ["python", "app.py"]
    assert "--rig" not in command(), "neither names a rig: engine/requests/rig_names.py does"


def test_the_published_target_is_in_the_image_by_its_hash() -> None:
    fetched = next(shlex.split(step.rest) for step in steps() if "engine fetch" in step.rest)
    rig, folder = (fetched[fetched.index(flag) + 1] for flag in ("--rig", "--into"))
    assert folder == f"assets/{rig}/target"
    assert number_of("USER") < number_of("RUN", "engine fetch") < number_of("ENTRYPOINT")
    package = json.loads((HOUSE / "assets" / rig / "rig.json").read_text())["package"]
    assert all(re.fullmatch("[0-9a-f]{64}", package[name]) for name in ("wheel_sha256", "file_sha256"))


def test_everything_that_is_copied_is_there_and_not_ignored() -> None:
    ignored = {line.strip().rstrip("/") for line in (HOUSE / ".dockerignore").read_text().splitlines()}
    for sources, _ in copied():
        for source in sources:
            assert (HOUSE / source).exists() and source not in ignored
    assert {".venv", ".git"} <= ignored, "the build context would carry gigabytes"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the image's working folder would hold."""
    folder = tmp_path_factory.mktemp("image")
    for sources, destination in copied():
        for source in sources:
            where = folder / destination
            if (HOUSE / source).is_dir():
                shutil.copytree(HOUSE / source, where, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(HOUSE / source, where)
    return folder


def test_the_packages_can_be_installed_and_are_enough(image: Path) -> None:
    for step in steps():
        if step.verb == "RUN" and step.rest.startswith("pip install"):
            words = shlex.split(step.rest)
            done = subprocess.run([sys.executable, "-m", *words, "--dry-run", "--no-index", "--quiet"], cwd=image,
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_the_command_serves_what_the_health_check_asks_for(image: Path) -> None:
    words = command()[1:]
    for flag, value in {"--port": PORT, "--host": "127.0.0.1", "--results": str(image / "results.sqlite")}.items():
        words[words.index(flag) + 1] = value
    check = next(step.rest for step in steps() if step.verb == "HEALTHCHECK").split("CMD ", 1)[1]
    assert ":7860/" in check, "it asks the port that is exposed"
    with served(*words, folder=image, **settings(), OMP_NUM_THREADS="1") as url:
        asks = shlex.split(check.replace(":7860/", f":{urlsplit(url).port}/"))
        asks = [sys.executable if word == "python" else word for word in asks]
        assert subprocess.run(asks, capture_output=True, check=False).returncode == 0
    assert subprocess.run(asks, capture_output=True, check=False).returncode != 0, "nothing answers any more"
