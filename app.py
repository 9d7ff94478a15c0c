"""Canopy's page: flags, choose a source, launch. The only file that imports both halves."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from engine.errors import CanopyError, RigError
from engine.rig_names import NAMED, from_hub
from explorer.bundle import ASSETS
from explorer.lab_bench import Absent, Bench
from explorer.lessons import Library, name_of, shipped
from explorer.replay import Recordings
from explorer.serving import Choosing
from explorer.source import Source

log = logging.getLogger("canopy")
DEMO = "demo"


def flags() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="app.py", description="Canopy: tree speculative decoding, seen round by round.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
    parser.add_argument("--port", type=int, default=7860, help="port to listen on (default: 7860)")
    parser.add_argument("--auth", type=_credentials, metavar="USER:PASSWORD", help="ask for this name and password")
    parser.add_argument("--rig", default=DEMO, help="a rig's name, a folder with a rig.json, or TARGET::DRAFTER, each "
                        f"a folder or a model id of the hub (default: {DEMO}; known: {', '.join(NAMED)})")
    parser.add_argument("--rig-choice", choices=("on", "off"), help="whether another rig may be chosen in the page, "
                        "which reads folders of this machine and downloads models (default: on where only this machine "
                        "can reach the page, or with --auth)")
    parser.add_argument("--trace", type=Path, metavar="PATH", help="a trace file, or a folder of them, to open first")
    parser.add_argument("--results", type=Path, default=Path("results.sqlite"), metavar="FILE",
                        help="where the lab keeps what it measured (default: results.sqlite)")
    return parser


def _credentials(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise argparse.ArgumentTypeError(f"it has to be USER:PASSWORD, and {text!r} is not")
    return user, password


def library(opened: Path | None) -> Library:
    """The shipped recordings behind those that the command line names."""
    if opened is None:
        return Library(shipped(ASSETS / "traces"))
    named = shipped(opened) if opened.is_dir() else [opened]
    return Library([*named, *shipped(ASSETS / "traces")], *(name_of(path) for path in named[:1]))


def source(rig: str, recordings: Library) -> Source:
    """The rig if it can be loaded, else the demo rig, else the recordings, with the reason why not."""
    try:
        live: Source = import_module("engine.runtime.live").serve(rig)
        return live
    except ModuleNotFoundError as error:
        reason = f"The rig {rig!r} needs the package {error.name}, which is not installed."
    except RigError as error:
        reason = str(error)
    except Exception as error:
        log.exception("The rig %s could not be loaded.", rig)
        reason = (f"The rig {rig!r} could not be loaded: an internal error ({type(error).__name__}); the server's log "
                  "has the details.")
    if rig != DEMO:
        fallen = source(DEMO, recordings)
        if not isinstance(fallen, Recordings):
            log.warning("%s The demo rig serves instead.", reason)
            instead: Source = cast(Any, fallen).instead(reason)
            return instead
    log.warning("No live runs. %s", reason)
    return Recordings(recordings, reason)


def may_choose(wanted: argparse.Namespace) -> bool:
    """Whether another rig may be chosen in the page: strangers do not get to fill the disk or to look for folders."""
    if wanted.rig_choice:
        return bool(wanted.rig_choice == "on")
    return wanted.host in ("127.0.0.1", "localhost", "::1") or wanted.auth is not None


def choosing(wanted: argparse.Namespace) -> Choosing:
    """Who opens other rigs, or the sentence why nobody does."""
    if not may_choose(wanted):
        return Choosing(closed="Another rig cannot be chosen here; whoever runs this page can start it with "
                               "--rig-choice on.")
    try:
        return Choosing(import_module("engine.runtime.answering").Rigs(), "")
    except ModuleNotFoundError as error:
        return Choosing(closed=f"No rig can be loaded: the package {error.name} is not installed.")


def keep_offline(rig: str, may_choose: bool) -> None:
    """Before gradio and transformers are imported: nothing is reported anywhere, and nothing can be looked up unless
    the rig's own checkpoints lie on the hub, or those of another one that may be chosen might."""
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1")
    if not may_choose and not from_hub(rig):
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")


def bench(served: Source) -> Bench:
    """The rig as something to measure with; without one, the reason why there is none."""
    if isinstance(served, Recordings):
        return Absent(served, served.reason)
    opened = cast(Any, served).checkpoints.opened  # another than was asked for where that one could not be loaded
    live: Bench = import_module("engine.runtime.lab").LiveBench(served, opened)
    return live


def built_page(wanted: argparse.Namespace) -> Any:
    """The page as the command line wants it. It alone holds on to the rig, so that it can let go of it."""
    recordings = library(wanted.trace)
    served = source(wanted.rig, recordings)
    page = import_module("explorer.page")
    return page.build(served, recordings, bench(served), wanted.results, choosing(wanted))


def main() -> int:
    """Serve the page until it is interrupted."""
    wanted = flags().parse_args()
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    keep_offline(wanted.rig, may_choose(wanted))
    page = import_module("explorer.page")
    try:
        built = built_page(wanted)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return 1
    built.queue(max_size=page.WAITING_ROOM)
    built.launch(server_name=wanted.host, server_port=wanted.port, auth=wanted.auth, **page.launch_options())
    return 0


if __name__ == "__main__":
    sys.exit(main())
