"""Many people at once on the demo rig, over HTTP: ``python -m tests.browser.many_people [RUNS [PEOPLE]]``.

Every prompt is answered alone first, then by all people together, each from an address of their own, then RUNS runs
follow one another. Printed: whether texts equal those of the lone runs, everybody's rate against a lone run's, the
resident memory before and after. It ends with status 1 where a text differs or a rate is too low.
"""

import json
import re
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from tests.browser.conftest import PORT, served

RUNS, PEOPLE = 200, 8
FAIR = 0.8  # of a lone run's rate divided by the number of people
ASKS: tuple[tuple[str, str, int, dict[str, Any]], ...] = (
    ("Omar has 6 boxes with 9 books in each box and 13 loose books. How many books does he have?", "ddtree", 32, {}),
    ("Write a Python function that doubles every number of a list.", "merged", 48, {}),
    ("What is speculative decoding?", "autoregressive", 0, {}),
    ("Mia buys 3 pens for 2 dollars each. What does she pay?", "ddtree", 16, {"seed": 3}),
    ("What is a node budget?", "joint", 24, {"pace": "auto"}),
    ("Lea has 12 cards and gives away 5. How many are left?", "routed", 32, {}),
    ("What is a draft tree?", "nanogpt", 16, {}),
    ("What is the root?", "dflash", 15, {}),
)


@dataclass(frozen=True)
class Answer:
    """What came of a run: its tokens, and the seconds from the first update that held some to the end."""

    token_ids: tuple[int, ...]
    seconds: float
    shared: int

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return len(self.token_ids) / self.seconds


class Person:
    """Somebody with an address of their own, which loopback has many of."""

    def __init__(self, url: str, number: int) -> None:
        self._url = url
        self._client = httpx.Client(transport=httpx.HTTPTransport(local_address=f"127.0.0.{10 + number}"), timeout=600)

    def ask(self, place: int, tokens: int = 120) -> Answer:
        """Ask one of the questions, and read the answer to its end."""
        prompt, method, budget, options = ASKS[place % len(ASKS)]
        data = [prompt, method, budget, 0.8 if "seed" in options else 0.0, {"max_tokens": tokens, **options}]
        begun = self._client.post(f"{self._url}gradio_api/call/generate", json={"data": data}).json()
        where, started = f"{self._url}gradio_api/call/generate/{begun['event_id']}", 0.0
        latest: dict[str, Any] = {}
        with self._client.stream("GET", where) as stream:
            for line in stream.iter_lines():
                found = json.loads(line.removeprefix("data: ")) if line.startswith("data: [") else None
                latest = found[0] if found else latest
                if not started and latest.get("message", "").startswith("Reading"):
                    started = time.perf_counter()
        assert latest["state"] == "done", latest
        return Answer(tuple(latest["token_ids"]), time.perf_counter() - started, self.shared(latest["run"]))

    def shared(self, run: str) -> int:
        """How many rounds of a run were shared."""
        return self._trace(run).count('"wait"')

    def _trace(self, run: str) -> str:
        begun = self._client.post(f"{self._url}gradio_api/call/trace", json={"data": [run]}).json()
        return self._client.get(f"{self._url}gradio_api/call/trace/{begun['event_id']}").text.replace('\\"', '"')


def at_once(people: Sequence[Person], places: Sequence[int]) -> list[Answer]:
    """Everybody asks at the same time, one question each."""
    with ThreadPoolExecutor(len(people)) as pool:
        return list(pool.map(Person.ask, people, places))


def resident_mb(url: str) -> float:
    """Of the process that serves there."""
    port = int(re.findall(r":(\d+)/", url)[0])
    sockets = [line.split()[9] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
               if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [str(each.readlink()) for each in (process / "fd").iterdir()]
            if any(f"socket:[{each}]" in links for each in sockets):
                return int(re.findall(r"VmRSS:\s+(\d+)", (process / "status").read_text())[0]) / 1024
        except OSError:
            continue
    raise AssertionError(f"Nobody listens on {port}.")


def compared(url: str, people: Sequence[Person]) -> bool:
    """The questions alone and together; whether texts are equal and rates fair."""
    for person, place in zip(people, range(len(people)), strict=True):
        person.ask(place, 30)  # warms up, and measures the costs that auto goes by
    before = [person.ask(place) for place, person in enumerate(people)]
    answers = at_once(people, range(len(people)))
    after = [person.ask(place) for place, person in enumerate(people)]
    fine = True
    for place, own in enumerate(answers):
        alone = [before[place], after[place]]
        part = own.rate / (median(each.rate for each in alone) / len(people))
        equal = all(own.token_ids == each.token_ids for each in alone)
        fine = fine and equal and (part >= FAIR or not own.shared)
        print(f"{ASKS[place % len(ASKS)][1]:>14}: text {'equal' if equal else 'DIFFERENT'}, "
              f"{len(own.token_ids)} tokens, alone {alone[0].rate:.0f} and {alone[1].rate:.0f} tokens/s, "
              f"together {own.rate:.0f}: {part:.2f} of a lone run's by {len(people)}; {own.shared} shared rounds",
              flush=True)
    return fine


def endured(url: str, people: Sequence[Person], runs: int) -> None:
    """So many runs, and what the server's memory came to."""
    at_once(people, range(len(people)))
    print(f"resident before: {resident_mb(url):.0f} MB", flush=True)
    for first in range(0, runs, len(people)):
        at_once(people, range(first, first + len(people)))
        if first // len(people) % 5 == 4:
            print(f"resident after {first + len(people)} runs: {resident_mb(url):.0f} MB", flush=True)
    print(f"resident after {runs} runs: {resident_mb(url):.0f} MB", flush=True)


def main(runs: int = RUNS, count: int = PEOPLE) -> int:
    """The exit status."""
    with served("app.py", "--port", PORT, "--rig", "demo", "--dtype", "float32", CUDA_VISIBLE_DEVICES="") as url:
        people = [Person(url, number) for number in range(count)]
        fine = compared(url, people)
        endured(url, people, runs)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
