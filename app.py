"""Canopy's page: flags, the rig that answers, launch. It opens the half with torch by its name alone."""

from __future__ import annotations

import signal

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C during the imports ends the process without a traceback

import argparse
import logging
import os
import re
import socket
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from engine.commands.flags import add_flags, int_between, parse_name, readable, writable_file
from engine.commands.program import FAILED, USAGE_ERROR, CommandLine, UsageError
from engine.errors import CanopyError, RigError, TraceError
from engine.machine.progress import ReportProgress
from engine.machine.threads import configure_openmp, exit_now
from engine.requests.admission import Admission
from engine.requests.limits import shown
from engine.requests.rig_names import EMBEDDED_RIG, HUB_RIGS, from_hub, is_address, server_address
from engine.texts.process import shared_process
from explorer.bundle import ASSETS, startup_page
from explorer.follow import Follow
from explorer.recordings import Library, recorded_rig, shipped
from explorer.rig import CurrentRig, Instruments, Source
from explorer.rig_choice import RigChoice, loading
from explorer.runs import RunLog
from explorer.security.gate import LOOPBACK, MAX_PATH_LENGTH, frame_origin, proxy_address
from explorer.shared import SharedRuns
from explorer.startup import Listening, serve_at_once

if TYPE_CHECKING:
    import gradio as gr
    from starlette.applications import Starlette
    from starlette.routing import Route

LOADING = "The rig is still being loaded."
Read = TypeVar("Read")
INSTRUMENTS = "engine.measure.instruments"  # imports torch


def flags() -> CommandLine:
    """Return the parser of the command line."""
    parser = CommandLine("app.py", "Canopy: tree speculative decoding, seen round by round.")
    parser.add_argument("--host", type=_address, default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int_between(1, 65535), default=7860, help="port to listen on")
    parser.add_argument("--allow-host", type=partial(_sentence, proxy_address), action="append", default=[],
                        metavar="NAME", help="a name (or NAME:PORT) under which a proxy of yours passes requests on to "
                        "this page; may be repeated (default: those of the address it listens on)")
    parser.add_argument("--root-path", type=_root_path, default="", metavar="PATH", help="the path that a proxy serves "
                        "this page below and takes away from what it passes on, such as /canopy")
    parser.add_argument("--allow-frame", type=partial(_sentence, frame_origin), action="append", default=[],
                        metavar="ORIGIN", help="an origin whose pages may show this page in a frame, such as "
                        "https://huggingface.co; may be repeated (default: none)")
    parser.add_argument("--auth", type=_credentials, metavar="USER:PASSWORD", help="ask for this name and password")
    add_flags(parser, "--rig", type=_rig, help="a rig's name, a folder with a rig.json, or TARGET::DRAFTER, each a "
              "folder or a model id of the hub; or random:SHAPE, random weights in a published size; or "
              "http://HOST:PORT, a server that runs already: vLLM, SGLang or llama.cpp, with #MODEL if it has "
              "several; known by name: "
              f"{', '.join(HUB_RIGS)}")
    add_flags(parser, "--dtype")
    parser.add_argument("--rig-choice", choices=("on", "off"), help="whether another rig may be chosen in the page, "
                        "which reads folders of this machine and downloads models (default: on if only this machine "
                        "can reach the page, or with --auth)")
    parser.add_argument("--trace", type=readable, metavar="PATH",
                        help="a trace file, or a folder of them, to open first")
    parser.add_argument("--follow", action="store_true", help="show the --trace file, or the newest of its folder, as "
                        "it grows: another program is writing it")
    parser.add_argument("--shared", type=Path, metavar="DIR", help="keep runs that people share in this folder, each "
                        "under a link that lasts until somebody deletes it (default: runs are shared as files)")
    parser.add_argument("--results", type=writable_file, default=Path("results.sqlite"), metavar="FILE",
                        help="where the lab keeps what it measured")
    return parser


def _address(word: str) -> str:
    try:
        socket.getaddrinfo(word or "\0", None)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"is {shown(word)}, which is not an address; write one such as 127.0.0.1 or "
                                         "0.0.0.0") from error
    return word


def _credentials(text: str) -> tuple[str, str]:
    user, colon, password = text.partition(":")
    if not (user and colon and password):
        raise argparse.ArgumentTypeError(f"is {shown(text)}; it has to be USER:PASSWORD")
    return user, password


def _root_path(word: str) -> str:
    path = word.strip("/")
    if not re.fullmatch(r"([\w.~-]+(/[\w.~-]+)*)?", path, re.ASCII) or ".." in path or len(path) > MAX_PATH_LENGTH:
        raise argparse.ArgumentTypeError(f"is {shown(word)}; it has to be a path such as /canopy")
    return f"/{path}" if path else ""


def _rig(text: str) -> str:
    rig = parse_name(text)
    return _sentence(server_address, rig) if is_address(rig) else rig


def _sentence(read: Callable[[str], Read], text: str) -> Read:
    """Call ``read``, turning CanopyError into argparse's error."""
    try:
        return read(text)
    except CanopyError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def open_rig(dtype: str, admission: Admission, name: str, beside: Source, report: ReportProgress) -> Instruments:
    """See ``OpenRig``. torch is imported when the first rig is opened, which takes seconds; a server needs none.

    Raises RigError if a package is not installed.
    """
    if is_address(name):
        attached: Instruments = import_module("explorer.attached").attach(name, report)  # imports httpx and pydantic
        return attached
    report("Importing torch …", None)
    shared_process().start()  # its imports take a second, beside torch's
    try:
        opened: Instruments = import_module(INSTRUMENTS).open_beside(beside, name, dtype, report, admission)
        return opened
    except ModuleNotFoundError as error:
        raise RigError(f"The rig {name!r} needs the package {error.name}, which is not installed.") from error


def free_memory() -> None:
    """Free the memory of rigs that are no longer referenced."""
    if "torch" in sys.modules:
        import_module(INSTRUMENTS).collect()


def library(opened: Path | None, rig: str) -> Library:
    """Read the recordings of the command line, then the shipped ones, first those of the rig."""
    requested = [] if opened is None else shipped(opened) if opened.is_dir() else [opened]
    return Library([*requested, *shipped(ASSETS / "traces", rig)])


def follow_of(args: argparse.Namespace) -> Follow | None:
    """Return the file or folder to follow, if there is one."""
    if not args.follow:
        return None
    if args.trace is None:
        raise TraceError("--follow has nothing to follow; name a trace file or a folder of them with --trace.")
    return Follow(args.trace)


def shared_of(args: argparse.Namespace) -> SharedRuns | None:
    """Open the folder of shared runs, if one is named."""
    return SharedRuns(args.shared) if args.shared else None


def may_choose(args: argparse.Namespace) -> bool:
    """Return whether people may choose a rig in the page. Strangers may not: it fills the disk and reads folders."""
    if args.rig_choice:
        return bool(args.rig_choice == "on")
    return args.host in LOOPBACK or args.auth is not None


def rig_choice_disabled(args: argparse.Namespace) -> str:
    """Return why no rig can be chosen in the page; "" if one can."""
    if not may_choose(args):
        return "Another rig cannot be chosen here; whoever runs this page can start it with --rig-choice on."
    missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
    return f"No rig can be loaded: the package {missing[0]} is not installed." if missing else ""


def keep_offline(rig: str, may_choose: bool) -> None:
    """Disable telemetry, and hub access unless the rig, or one that may be chosen, needs it. Call before importing
    gradio and transformers."""
    os.environ.update(GRADIO_ANALYTICS_ENABLED="False", HF_HUB_DISABLE_TELEMETRY="1")
    if not may_choose and not from_hub(rig):
        os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")


def first_page(args: argparse.Namespace, recordings: Library) -> str:
    """Return the HTML served while the page is built. Without a recording if login is required or a file is
    followed."""
    first = None if args.auth or args.follow else recordings.first()
    lines = RunLog.recorded(first.name, first.trace, recordings.comparison(first.name)).all_lines() if first else ()
    return startup_page(lines, args.root_path, first.trace.header.prompt if first else "")


def serve_page(args: argparse.Namespace, recordings: Library, listening: Listening) -> Starlette:
    """Build the page inside its gate; this imports Gradio."""
    app: Starlette = import_module("explorer.page").guarded(*build_page(args, recordings), listening)
    return app


def build_page(args: argparse.Namespace, recordings: Library) -> tuple[gr.Blocks, list[Route]]:
    """Build the page. Recordings answer at first; the rig is loaded once the page is served."""
    rig = CurrentRig(recorded_rig(recordings, LOADING), first_load=loading(args.rig))
    admission = Admission()
    choice = RigChoice(rig, admission, partial(open_rig, args.dtype, admission), rig_choice_disabled(args), free_memory)
    page, routes = import_module("explorer.page").build(
        rig, recordings, choice, args.results, follow_of(args), shared_of(args))

    async def load() -> None:
        choice.load_first(EMBEDDED_RIG, partial(recorded_rig, recordings))

    page.extra_startup_events.append(load)
    return page, routes


def main() -> int:
    """Serve the page until it is interrupted."""
    configure_openmp()  # a rig that is loaded later imports torch
    try:
        args = flags().parse(sys.argv[1:])
    except UsageError as error:
        print(error, file=sys.stderr)
        return USAGE_ERROR
    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    keep_offline(args.rig, may_choose(args))
    listening = Listening(args.host, args.port, args.auth, args.allow_host, args.root_path,
                          args.allow_frame)
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        follow_of(args)
        shared_of(args)
        recordings = library(None if args.follow else args.trace, args.rig)
        serve_at_once(first_page(args, recordings), partial(serve_page, args, recordings, listening), listening)
    except CanopyError as error:
        print(error, file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    exit_now(main())
