"""A folder of traces as a static site: an index with a picture of each run, and a replay page for each.

    python -m explorer.gallery runs site
"""

import re
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from html import escape
from pathlib import Path

from engine.decoding.tree import depths
from engine.errors import CanopyError
from engine.lab.speed import rate_text
from engine.machine.files import replace_file
from engine.records import Round
from explorer.bundle import replay_page
from explorer.recordings import Library, Recording, RecordingSummary, shipped
from explorer.runs import RunLog

COLUMN, ROW, MARGIN = 22, 12, 10  # pixels of a picture
MIN_WIDTH = 200
MAX_PICTURE_ROWS = 9  # rows below are cut off
STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#16202c, #e8edf4); --quiet: light-dark(#566273, #9aa7b8);
  --line: light-dark(#d9dfe7, #2a3542); --panel: light-dark(#fff, #151c25); --kept: light-dark(#0072b2, #56b0ea); }
body { margin: 0; padding: 32px clamp(16px, 4vw, 64px); background: light-dark(#f3f5f8, #0d1218); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; font-variant-numeric: tabular-nums; }
h1 { font-size: 26px; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(290px, 1fr)); gap: 18px; }
a { display: flex; flex-direction: column; padding: 14px 16px; border: 1px solid var(--line); border-radius: 10px;
  background: var(--panel); color: inherit; text-decoration: none; }
a:hover, a:focus-visible { border-color: var(--ink); }
svg { width: 100%; height: 130px; }
h2 { margin: 6px 0 2px; font-size: 16px; }
p { margin: 0; color: var(--quiet); font-size: 13px; }
p.prompt { display: -webkit-box; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
p.figures { margin-top: auto; padding-top: 8px; color: var(--ink); font-size: 14px; }
path { fill: none; stroke: var(--quiet); } path.kept { stroke: var(--kept); stroke-width: 2.5; }
circle { fill: var(--panel); stroke: var(--quiet); } circle.kept { fill: var(--kept); stroke: var(--kept); }
"""


def best_round(rounds: Sequence[Round]) -> Round:
    """Choose the round to show: one whose tree branches, if there is one, and which kept the most."""
    return max(rounds, key=lambda round_: (len(set(round_.tree.parents[1:].tolist())) < len(round_.tree) - 1,
                                           len(round_.acceptance.keep), -len(round_.tree)))


def picture(round_: Round) -> str:
    """Draw a round's tree as SVG: depth to the right, the kept path on the first row."""
    parents, kept = round_.tree.parents.tolist(), set(round_.acceptance.keep.tolist())
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents[1:], start=1):
        children[parent].insert(0 if node in kept else len(children[parent]), node)
    rows, free, waiting = {0: 0}, 0, [0]
    while waiting:
        node = waiting.pop()
        waiting += reversed(children[node])
        for place, child in enumerate(children[node]):
            free += place > 0
            rows[child] = rows[node] if place == 0 else free
    spot = {node: (MARGIN + COLUMN * int(depth), MARGIN + ROW * rows[node])
            for node, depth in enumerate(depths(round_.tree.parents)) if rows[node] < MAX_PICTURE_ROWS}
    edges, nodes = [], []
    for node in sorted(spot, key=lambda node: node in kept):
        x, y = spot[node]
        look = ' class="kept"' if node in kept else ""
        if node and parents[node] in spot:
            left, top = spot[parents[node]]
            edges.append(f'<path{look} d="M{left},{top}C{left + 9},{top} {x - 13},{y} {x},{y}"/>')
        nodes.append(f'<circle{look} cx="{x}" cy="{y}" r="3.5"/>')
    wide = max(MIN_WIDTH, *(x + MARGIN for x, _ in spot.values()))
    high = max(y for _, y in spot.values()) + MARGIN
    return (f'<svg viewBox="0 0 {wide} {high}" preserveAspectRatio="xMinYMin" role="img" aria-label="Draft tree">'
            f'{"".join(edges + nodes)}</svg>')


def card(recording: Recording, about: RecordingSummary, link: str) -> str:
    """Return the run's entry in the index."""
    header = recording.trace.header
    setting = about["method"] + (f", {about['budget']} nodes" if about["budget"] and about["drafters"] else "")
    figures = [f"τ {about['tau']:.2f}" if about["tau"] is not None else "",
               f"{rate_text(about['tokens_per_second'])} tokens/s" if about["tokens_per_second"] else "",
               f"{about['won']} plain decoding" if about["won"] else ""]
    return (f'<a href="{link}">{picture(best_round(recording.trace.rounds))}'
            f'<h2>{escape(about["title"])}</h2><p class="prompt">{escape(header.prompt[:300])}</p>'
            f'<p class="figures">{escape(" · ".join(filter(None, figures)))}</p>'
            f"<p>{escape(' · '.join(filter(None, [setting, header.rig, header.hardware, header.recorded])))}</p></a>")


def write_gallery(traces: Path, site: Path, title: str) -> int:
    """Write the site of a folder of traces and return how many runs it shows; FileError if it cannot be written."""
    library = Library(shipped(traces))
    cards = list[str]()
    for (name, recording), about in zip(library.recordings.items(), library.summaries(), strict=True):
        if not recording.trace.entries:
            continue
        link = f"{len(cards) + 1:03d}-{re.sub(r'[^A-Za-z0-9_-]', '-', name)[:80]}.html"
        run = RunLog.recorded(name, recording.trace, library.comparison(name))
        replace_file(site / link, replay_page(about["title"], run.all_lines()).encode())
        cards.append(card(recording, about, link))
    page = (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
            f'content="width=device-width, initial-scale=1"><title>{escape(title)}</title><style>{STYLE}</style></head>'
            f"<body><h1>{escape(title)}</h1><main>{''.join(cards)}</main></body></html>\n")
    replace_file(site / "index.html", page.encode())
    return len(cards)


def main() -> int:
    """Make a site of a folder of traces; see the module's docstring."""
    parser = ArgumentParser(prog="python -m explorer.gallery", description=__doc__.partition("\n")[0])
    parser.add_argument("traces", type=Path, help="a folder of trace files")
    parser.add_argument("site", type=Path, help="the folder to write to")
    parser.add_argument("--title", default="Runs of Canopy", help="the heading of the index")
    args = parser.parse_args()
    if not args.traces.is_dir():
        parser.error(f"{args.traces} is not a folder; name one with trace files (.jsonl or .jsonl.gz)")
    try:
        args.site.mkdir(parents=True, exist_ok=True)
        count = write_gallery(args.traces, args.site, args.title)
    except (CanopyError, OSError) as error:
        print(f"The gallery cannot be written: {error}", file=sys.stderr)
        return 1
    print(f"{count} runs: {args.site / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
