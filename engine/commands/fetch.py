"""Fetches a rig's checkpoints and makes them ready, so that a later start needs no network and takes seconds.

    python -m engine fetch --rig smollm2
"""

import argparse
import shutil

from engine.checkpoints.memory import LoadContext
from engine.commands import Outcome, flags
from engine.errors import RigError
from engine.serving.rigs import rig_parts


def add(parser: argparse.ArgumentParser) -> None:
    flags.add_flags(parser, "--rig")
    parser.add_argument("--into", type=flags.parse_folder, metavar="FOLDER",
                        help="copy the target there, too, as for a container image")


def show_step(message: str, share: float | None = None) -> None:
    print(message, flush=True)


def run(args: argparse.Namespace) -> Outcome:
    parts = rig_parts(args.rig, LoadContext(show_step))
    folder = parts.target
    if args.into and args.into.resolve() != folder.resolve():
        try:
            shutil.copytree(folder, args.into, dirs_exist_ok=True)
        except OSError as error:
            raise RigError(f"{args.into} cannot be written ({error}); name another folder.") from error
        folder = args.into
    return Outcome({"rig": parts.card.title, "target": str(folder)},
                   f"{parts.card.title} is ready: its target lies in {folder}.")
