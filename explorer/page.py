"""The page: one bar of controls, one stage. Everything that moves is drawn in the browser (``assets/``)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import gradio as gr

from engine.errors import CanopyError
from engine.methods import METHODS
from engine.pace import AUTO, FIXED
from explorer.asking import LARGEST_BUDGET, Form, ask_from
from explorer.bundle import ASSETS, bundle, style
from explorer.heads import choosing_heads, names_of
from explorer.lab import Lab, lab_component
from explorer.lab_assets import lab_head
from explorer.lab_bench import Absent, Bench
from explorer.lessons import Lesson, Library
from explorer.presets import fitting, presets
from explorer.rig_choice import RigChoice
from explorer.runs import Runs, Stream
from explorer.service import Service
from explorer.serving import FIXED_RIG, Choosing, Serving, Started
from explorer.source import Source
from explorer.turns import Turns
from explorer.view import View, blank_view

DEFAULTS: Mapping[str, Any] = MappingProxyType(  # what a preset does not name, in the order of ``Controls.asked``
    {"split": "total", "top_k": 0, "top_p": 1, "seed": 0, "max_tokens": 256, "pace": FIXED})
QUIET: Mapping[str, Any] = MappingProxyType({"queue": False, "show_progress": "hidden", "api_visibility": "private"})
RESULTS = Path("results.sqlite")  # as of ``python -m engine.sweep``, so that either goes on with the other's sweeps
NO_BENCH = "No model is loaded, so nothing can be measured; start the page with a rig."
WAITING_ROOM = 16  # runs that may wait for their turn at once, each with its place shown
HOST = '<div class="canopy-host"></div>'  # constant: a template that changes would wipe out what is drawn in it
LARGEST_STEP = LARGEST_BUDGET.bit_length()  # of the slider: 0, then the powers of two


def build(source: Source, library: Library, bench: Bench | None = None, results: Path = RESULTS,
          choosing: Choosing = FIXED_RIG) -> gr.Blocks:
    """The page over a source of live runs and a library of recordings, and over a rig to measure with. ``results`` is
    the file in which the lab keeps what it measured."""
    runs, turns = Runs(), Turns()
    serving = Serving(Started(source, bench or Absent(source, NO_BENCH)))
    stream = Stream(serving, runs, turns)
    service = Service(library, runs, stream)
    choice = RigChoice(serving, turns, choosing)
    lab = Lab(serving.bench, service.trace_of, turns, results)
    first = library.first()
    opening = packed(service.view_of(first.name) if first else blank_view())
    with gr.Blocks(title="Canopy", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(elem_id="canopy-header", html_template=HOST, padding=False, apply_default_css=False)
        controls = Controls(serving, opening_form(first, serving.bench))
        stage = gr.HTML(
            value=opening, elem_id="canopy-stage", html_template=HOST, padding=False, apply_default_css=False,
            js_on_load="Canopy.open(element, props, watch, server, (run) => trigger('adopt', run));",
            lessons=library.summaries(), opening=first.name if first else "",
            server_functions=[service.replay, service.open_trace, service.export, *choice.functions()])
        _wire(page, controls, stage, stream)
        _follow(page, controls, serving)
        _follow_heads(controls, stage, serving)
        lab_component(lab, HOST).adopt(_setting_values, None, controls.setting(), **QUIET)
        service.publish()
        page.unload(_farewell)
    return page


def launch_options() -> dict[str, Any]:
    """What ``launch`` has to be given for the page to look and behave as built."""
    icon = ASSETS / "stage" / "icon.svg"
    return {
        "head": f"<style>{style()}</style>\n{bundle()}\n{lab_head()}", "theme": gr.themes.Base(
            font=["system-ui", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"],
            font_mono=["DejaVu Sans Mono", "Cascadia Mono", "Menlo", "Consolas", "monospace"]),
        "ssr_mode": False, "footer_links": [], "run_history": False, "show_error": True,
        "favicon_path": icon,
    }


def opening_form(lesson: Lesson | None, bench: Bench) -> Mapping[str, Any]:
    """What the bar opens with: the question of the recording on the stage, or the first preset."""
    if lesson is None:
        return presets(bench)[0]
    request = lesson.trace.header.request
    sampling = request.sampling
    return {"prompt": lesson.trace.header.prompt, "method": request.method, "budget": request.budget,
            "temperature": sampling.temperature, "split": request.split, "top_k": sampling.top_k,
            "top_p": sampling.top_p, "seed": sampling.seed, "max_tokens": request.max_tokens}


def packed(view: View) -> str:
    """A stage value as one text: Gradio sends objects as edits of the one before, and edits of a list whose
    beginning moves arrive wrong; a text is replaced whole."""
    return json.dumps(view, separators=(",", ":")).replace("<", "\\u003c")


class Controls:
    """The bar: what to run and how."""

    def __init__(self, serving: Serving, first: Mapping[str, Any]) -> None:
        first = {**DEFAULTS, **first}
        method = fitting(first["method"], serving.methods)
        with gr.Row(elem_id="canopy-ask"):
            self.prompt = gr.Textbox(
                value=first["prompt"], label="Prompt", placeholder="Ask something …", lines=1, max_lines=3,
                scale=8, elem_id="canopy-prompt", submit_btn=False)
            self.preset = gr.Dropdown(
                titles(serving.bench), value=first.get("name"), label="Preset", scale=3, elem_id="canopy-preset")
            self.run = gr.Button("▶ Run", variant="primary", elem_id="canopy-run", scale=0)
            self.stop = gr.Button("■ Stop", variant="secondary", elem_id="canopy-stop", scale=0)
        with gr.Row(elem_id="canopy-settings"):
            # all of them, until the page has asked which the rig that answers by then can run
            self.method = gr.Dropdown(list(METHODS), value=method, label="Method", elem_id="canopy-method")
            self.steps = gr.Slider(
                0, LARGEST_STEP, value=step_of(first["budget"]), step=1, label="Node budget", elem_id="canopy-steps")
            self.budget = gr.Number(first["budget"], precision=0, label="Nodes", elem_id="canopy-budget")
            self.pace = gr.Dropdown(
                [("as set", FIXED), ("auto, up to it", AUTO)], value=first["pace"], label="Every round",
                elem_id="canopy-pace")
            self.split = gr.Dropdown(
                ["total", "each"], value=first["split"], label="Split of merged", elem_id="canopy-split")
            self.temperature = gr.Number(
                first["temperature"], step=0.1, label="Temperature", elem_id="canopy-temperature")
            with gr.Accordion("More", open=False, elem_id="canopy-more"), gr.Row(elem_id="canopy-fine"):
                self._fine(first, choosing_heads(serving, method))
        self.turns = gr.JSON([], visible=False)  # those before the prompt, which the browser holds

    def _fine(self, first: Mapping[str, Any], heads: dict[str, Any]) -> None:
        self.top_k = gr.Number(first["top_k"], precision=0, label="top-k (0: all)")
        self.top_p = gr.Number(first["top_p"], step=0.05, label="top-p")
        self.seed = gr.Number(first["seed"], precision=0, label="Seed")
        self.max_tokens = gr.Number(first["max_tokens"], precision=0, label="Max tokens", elem_id="canopy-max-tokens")
        self.heads = gr.Dropdown(label="Heads that draft", elem_id="canopy-heads", **heads)

    def setting(self) -> list[Any]:
        """The components that the lab's recommended setting goes to."""
        return [self.method, self.budget, self.steps, self.split, self.pace]

    def inputs(self) -> list[Any]:
        """The components whose values make a ``Form``, in its order."""
        return [self.prompt, self.method, self.budget, self.split, self.temperature, self.top_k, self.top_p,
                self.seed, self.max_tokens, self.pace, self.heads, self.turns]

    def asked(self) -> list[Any]:
        """The components that a preset or an opened recording fills in: in the order of ``_values``, and the heads."""
        return [self.prompt, self.method, self.budget, self.steps, self.temperature, self.split, self.top_k,
                self.top_p, self.seed, self.max_tokens, self.pace, self.heads]


def step_of(budget: int) -> int:
    """The slider's step nearest to a budget: 0 for none, else one more than the power of two."""
    return min(LARGEST_STEP, round(math.log2(budget)) + 1) if budget >= 1 else 0


def _wire(page: gr.Blocks, controls: Controls, stage: gr.HTML, stream: Stream) -> None:
    def run(*values: Any) -> Iterator[str]:
        *filled, heads, turns = values
        form = [*filled, names_of(heads), turns]
        try:
            ask = ask_from(Form(*form))
        except CanopyError as error:
            yield packed(blank_view(f"refused-{uuid4().hex[:6]}", "error", str(error)))
            return
        for view in stream.watch(ask):
            yield packed(view)

    running = gr.on(
        [controls.run.click, controls.prompt.submit], run, controls.inputs(), stage, concurrency_id="engine",
        concurrency_limit=WAITING_ROOM, show_progress="hidden", api_visibility="private",
        js="(...values) => Canopy.controls.asked(values)")
    controls.stop.click(None, cancels=[running], js="() => Canopy.controls.stop()")
    in_browser: dict[str, Any] = {"fn": None, "queue": False, "api_visibility": "private"}
    controls.steps.input(**in_browser, inputs=controls.steps, outputs=controls.budget,
                         js="(step) => Canopy.controls.budgetOf(step)")
    controls.budget.input(**in_browser, inputs=controls.budget, outputs=controls.steps,
                          js="(budget) => Canopy.controls.stepOf(budget)")
    told: list[Any] = [controls.method, controls.budget]
    for control in (noted := [*told, controls.pace]):
        control.change(**in_browser, inputs=noted, js="(...setting) => Canopy.controls.note(...setting)")


def _follow(page: gr.Blocks, controls: Controls, serving: Serving) -> None:
    """What depends on the rig: the methods and the presets. It may have been changed since the page was built."""
    def offered(method: str) -> list[Any]:
        methods = list(serving.methods)
        # one that can be run stays as it is: a recording may have filled in another by the time this arrives
        kept: dict[str, Any] = {} if method in methods else {"value": fitting(method, methods)}
        return [gr.Dropdown(choices=methods, **kept), gr.Dropdown(choices=titles(serving.bench))]

    def filled(name: str | None) -> list[Any]:
        """Nothing where a keyboard only passed through the list and chose none."""
        named = {preset["name"]: preset for preset in presets(serving.bench)}
        if name not in named:
            return [gr.skip()] * (6 + len(DEFAULTS))
        method = fitting(named[name]["method"], serving.methods)
        return [*_values({**named[name], "method": method}), gr.Dropdown(**choosing_heads(serving, method))]

    asked = [controls.method, controls.budget, controls.steps, controls.prompt]
    restored = page.load(
        None, asked, asked, js="(...values) => Canopy.controls.restore(...values)", queue=False,
        api_visibility="private")
    restored.then(offered, controls.method, [controls.method, controls.preset], preprocess=False, **QUIET)
    controls.preset.input(filled, controls.preset, controls.asked(), **QUIET)


def _follow_heads(controls: Controls, stage: gr.HTML, serving: Serving) -> None:
    """The heads depend on rig and method; what a recording was made with is chosen where the rig has it."""
    def fitted(method: str, chosen: Any) -> Any:
        return gr.Dropdown(**choosing_heads(serving, fitting(method, list(METHODS)), names_of(chosen)))

    def adopted(event: gr.EventData) -> list[Any]:
        """The bar as a run was asked: the browser sends its header when a recording is opened."""
        method = fitting(event._data["method"], list(METHODS))
        return [*_values(event._data), gr.Dropdown(**choosing_heads(serving, method, event._data["heads"]))]

    controls.method.change(fitted, [controls.method, controls.heads], controls.heads, preprocess=False, **QUIET)
    stage.adopt(adopted, None, controls.asked(), **QUIET)


def titles(bench: Bench) -> list[tuple[str, str]]:
    """The presets as a list offers them: title and name."""
    return [(preset["title"], preset["name"]) for preset in presets(bench)]


def _setting_values(event: gr.EventData) -> list[Any]:
    """Method, budget, split and pace as the lab measured them; the question and all else stay."""
    setting = event._data
    split = setting.get("split") or gr.skip()
    return [setting["method"], setting["budget"], step_of(setting["budget"]), split,
            setting.get("pace") or FIXED]


def _values(run: dict[str, Any]) -> list[Any]:
    run = {**DEFAULTS, **run}
    fine = [run[name] for name in DEFAULTS]
    return [run["prompt"], run["method"], run["budget"], step_of(run["budget"]), run["temperature"], *fine]


def _farewell() -> None:
    """Nothing to do: Gradio watches for closed tabs, and ends their runs, only where somebody listens."""

