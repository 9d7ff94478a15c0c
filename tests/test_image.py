"""The Dockerfile without a container engine: parsed, checked, and its steps run in order in a temporary folder."""

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
    """Hold one Dockerfile instruction and its arguments."""

    verb: str
    rest: str


def steps() -> list[Step]:
    """Return the instructions in order, with continued lines joined and comments removed."""
    text = re.sub(r"\\\n\s*", "", (HOUSE / "Dockerfile").read_text(encoding="utf8"))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [Step(*line.split(maxsplit=1)) for line in lines]


def copy_steps() -> list[tuple[list[str], str]]:
    """Return (sources, destination) of every COPY."""
    words = [shlex.split(step.rest) for step in steps() if step.verb == "COPY"]
    return [([word for word in line[:-1] if not word.startswith("--")], line[-1]) for line in words]


def test_the_image_has_the_versions_that_are_tested() -> None:
    pinned = re.findall(r"torch==[\d.]+", (HOUSE / "Dockerfile").read_text())
    assert set(pinned) == set(re.findall(r"torch==[\d.]+", (HOUSE / "Makefile").read_text()))
    assert set(pinned) == set(re.findall(r"^torch==[\d.]+", (HOUSE / "requirements.txt").read_text(), re.MULTILINE))


def test_the_page_is_not_served_as_root() -> None:
    verbs = [step.verb for step in steps()]
    user = steps()[verbs.index("USER")].rest
    assert user not in ("root", "0") and verbs.index("USER") < verbs.index("ENTRYPOINT")
    assert any(user in step.rest and "useradd" in step.rest for step in steps()[:verbs.index("USER")])


def settings() -> dict[str, str]:
    """Return the environment variables that the image sets."""
    return dict(pair.split("=", 1) for step in steps() if step.verb == "ENV" for pair in shlex.split(step.rest))


def test_the_image_requests_a_gpu_and_its_threads_wait_without_spinning() -> None:
    gpu = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    assert {**gpu, **WAITING}.items() <= settings().items()
    assert not set(NUMBER) & set(settings()), "the number of threads depends on the machine"


def command() -> list[str]:
    """Return the words of the command that the image runs."""
    return [word for verb in ("ENTRYPOINT", "CMD") for word in json.loads(
        next(step.rest for step in steps() if step.verb == verb))]


def test_every_copied_file_exists_and_is_not_ignored() -> None:
    ignored = {line.strip().rstrip("/") for line in (HOUSE / ".dockerignore").read_text().splitlines()}
    for sources, _ in copy_steps():
        for source in sources:
            assert (HOUSE / source).exists() and source not in ignored
    assert {".venv", ".git"} <= ignored, "otherwise the build context has gigabytes"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a folder with the content of the image's working folder."""
    folder = tmp_path_factory.mktemp("image")
    for sources, destination in copy_steps():
        for source in sources:
            if (HOUSE / source).is_dir():
                shutil.copytree(HOUSE / source, folder / destination, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(HOUSE / source, folder / destination)
    return folder


def test_the_packages_can_be_installed_and_suffice(image: Path) -> None:
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
    assert ":7860/" in check, "the health check requests the exposed port"
    with served(*words, folder=image, **settings(), OMP_NUM_THREADS="1") as url:
        asks = shlex.split(check.replace(":7860/", f":{urlsplit(url).port}/"))
        asks = [sys.executable if word == "python" else word for word in asks]
        assert subprocess.run(asks, capture_output=True, check=False).returncode == 0
    assert subprocess.run(asks, capture_output=True, check=False).returncode != 0, "the server has ended"
