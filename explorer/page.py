"""The page: one bar of controls, one stage, and the app that serves it behind the gate. Everything that moves is drawn
in the browser (``assets/``)."""

import gc
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.decoding.budget_policy import AUTO, FIXED
from engine.decoding.methods import METHODS, SERVED
from engine.decoding.options import CHOICES, DEFAULTS, HINTS, OPTIONS, options_of
from engine.requests.admission import MAX_PENDING_RUNS, Admission
from engine.requests.rig_names import default_setting
from explorer.browser_calls import as_json_calls, bar_call
from explorer.budgets import Budgets
from explorer.bundle import ASSETS, FIRST_SENTENCE, LAB, STAGE, cover, script, style
from explorer.comparison import Comparison
from explorer.endpoints import Endpoints
from explorer.follow import Follow
from explorer.lab.lab import Lab, lab_component
from explorer.recordings import Library, Recording
from explorer.rig import CurrentRig
from explorer.rig_choice import RigChoice
from explorer.run_form import Preset, Presets, drafter_dropdown, fitting, names_of, read_presets, titles
from explorer.run_routes import RunRoutes
from explorer.runs import Runner, Runs
from explorer.security.bodies import Calls
from explorer.security.gate import Gate, hosts_of
from explorer.shared import SharedRuns
from explorer.startup import Listening
from explorer.two_runs import two_runs_call

MAX_SESSIONS = 512  # browsers for which Gradio keeps the values of all components
BAR_OPTIONS = tuple(name for name in OPTIONS if name != "forced")
# the options that a preset or a recording sets
FILLED_OPTIONS = tuple(name for name in BAR_OPTIONS if name not in ("drafters", "turns"))
UNQUEUED: Mapping[str, Any] = MappingProxyType({"queue": False, "show_progress": "hidden", "api_visibility": "private"})
RESULTS = Path("results.sqlite")  # also of ``python -m engine sweep``, so that either can resume the other's sweeps
STAGE_HTML = '<div class="canopy-host"></div>'  # constant, because an update would replace the rendered stage
FRACTION_STEP = 0.05  # of the arrows of number fields
MAX_SLIDER_STEP = 11  # steps are 0, then the powers of two to 1,024; larger budgets can be typed


def build(rig: CurrentRig, library: Library, choice: RigChoice | None = None, results: Path = RESULTS,
          follow: Follow | None = None, shared: SharedRuns | None = None) -> tuple[gr.Blocks, list[Route]]:
    """Build the page over the current rig and a library of recordings, and the routes of its runs. ``choice`` changes
    the rig, ``results`` is the lab's file of results. Raises PresetError if a preset cannot be run."""
    choice, runs = choice or RigChoice(rig, Admission()), Runs()
    endpoints = Endpoints(library, runs, runner := Runner(rig, runs, choice.admission), follow, shared)
    trace_of = endpoints.trace_of
    budgets = Budgets(rig, trace_of, endpoints.speed_of)
    comparison = Comparison(rig, trace_of, choice.admission, runs, budgets.fastest)
    lab = Lab(rig, trace_of, choice.admission, results, endpoints.speed_of)
    presets = read_presets(ASSETS / "prompts")
    first = None if follow else library.first()
    with gr.Blocks(title="Canopy", analytics_enabled=False, fill_width=True) as page:
        gr.HTML(elem_id="canopy-header", html_template=STAGE_HTML, padding=False, apply_default_css=False)
        answers = rig.first_load is None or rig.first_load.name in presets.by_rig  # its own recording is the first
        controls = Controls(rig, presets.for_rig(rig), first if answers else None)
        stage = gr.HTML(
            elem_id="canopy-stage", html_template=STAGE_HTML, padding=False, apply_default_css=False,
            js_on_load="Canopy.open(element, props, server, {adopt: (run) => trigger('adopt', run), "
                       "rig: () => trigger('rig', {})});",
            recordings=library.summaries(), vetted=presets.vetted(), opening=first.name if first else "",
            followed=bool(follow), shares=bool(shared),
            server_functions=as_json_calls([
                *endpoints.functions(), *choice.functions(), *comparison.functions(), *budgets.functions(),
                two_runs_call(trace_of)]))
        _wire(controls)
        _update_bar(page, controls, stage, rig, presets)
        lab_component(lab, STAGE_HTML).adopt(bar_call(_setting_values), None, controls.setting(), **UNQUEUED)
        endpoints.publish()
    return page, RunRoutes(runner, endpoints.run_of, follow.lines if follow else None).routes()


def guarded(page: gr.Blocks, routes: Sequence[Route], listening: Listening) -> FastAPI:
    """Make the ASGI app of the page and its routes, reached only through the gate."""
    def admits(scope: Scope) -> bool:
        """Return whether a request has the cookie of a Gradio login (gradio 6.31, ``get_current_user``)."""
        cookies = HTTPConnection(scope).cookies
        names = (f"access-token-{gradio_app.cookie_id}", f"access-token-unsecure-{gradio_app.cookie_id}")
        return listening.auth is None or any(cookies.get(name) in gradio_app.tokens for name in names)

    gate = Middleware(Gate, hosts_of(listening.host, listening.allowed, listening.frames), Calls(page).check, admits)
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, middleware=[gate], routes=list(routes))
    page.queue(max_size=MAX_PENDING_RUNS, api_open=False)
    page.state_session_capacity = MAX_SESSIONS
    mounted: FastAPI = gr.mount_gradio_app(
        app, page, "/", root_path=listening.root_path or None, server_name=listening.host,
        server_port=listening.port, auth=listening.auth, app_kwargs={"middleware": [Middleware(Cover)]},
        head=f"<style>{style('page.css')}{style('lab/lab.css')}</style>\n{script(STAGE, LAB)}",
        theme=gr.themes.Base(
            font=["system-ui", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"],
            font_mono=["DejaVu Sans Mono", "Cascadia Mono", "Menlo", "Consolas", "monospace"]),
        ssr_mode=False, footer_links=[], run_history=False, show_error=True,
        favicon_path=ASSETS / "stage" / "icon.svg")
    gradio_app: Any = next(route.app for route in mounted.routes if isinstance(route, Mount))
    # Exempt what is loaded by now, above all the recordings, from garbage collection: scanning a recording of 30,000
    # rounds would delay every request by a second.
    gc.freeze()
    return mounted


class Cover:
    """Adds a style and a sentence to Gradio's page, which cover it until ours is built. Gradio's scripts add what
    ``head`` names only later."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start: Message | None = None
        body = b""

        async def covered(message: Message) -> None:
            nonlocal start, body
            starts = message["type"] == "http.response.start"
            if starts and "text/html" in Headers(scope=message).get("content-type", ""):
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")
                if not message.get("more_body"):
                    body = body.replace(b"</head>", f"{cover()}</head>".encode(), 1)
                    body = body.replace(b"<gradio-app", f"{FIRST_SENTENCE}<gradio-app".encode(), 1)
                    MutableHeaders(scope=start)["content-length"] = str(len(body))
                    await send(start)
                    await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, covered)


class Controls:
    """The bar: what to run and how. It opens with the recording's options, or with those of the first preset."""

    def __init__(self, rig: CurrentRig, offered: Sequence[Preset], recording: Recording | None) -> None:
        name = rig.first_load.name if rig.first_load else rig.instruments.opened_as
        form = ({"prompt": recording.trace.header.prompt, **options_of(recording.trace.header.request)} if recording
                else options_of(offered[0].request))
        first = {**DEFAULTS, **form, **default_setting(name)}
        method = fitting(first["method"], rig.source.methods)
        self.opened_with = method, first["budget"]
        with gr.Row(elem_id="canopy-ask"):
            self.prompt = gr.Textbox(
                value=first["prompt"], label="Prompt", placeholder="Ask something …", lines=1, max_lines=3,
                scale=8, elem_id="canopy-prompt", submit_btn=False)
            self.preset = gr.Dropdown(
                titles(offered), value=None, label="Preset", scale=3, elem_id="canopy-preset")
            self.run = gr.Button("▶ Run", variant="primary", elem_id="canopy-run", scale=0)
            self.stop = gr.Button("■ Stop", variant="secondary", elem_id="canopy-stop", scale=0)
        with gr.Row(elem_id="canopy-settings"):
            # all methods, until the page has asked which of them the rig can run
            self.method = gr.Dropdown(list(METHODS), value=method, label="Method", elem_id="canopy-method")
            self.steps = gr.Slider(
                0, MAX_SLIDER_STEP, step=1, label="Node budget", elem_id="canopy-steps")
            self.budget = gr.Number(first["budget"], precision=0, label="Nodes", elem_id="canopy-budget")
            self.pace = gr.Dropdown(
                [("in full", FIXED), ("auto: as many as pay", AUTO)], value=first["pace"], label="Budget use",
                elem_id="canopy-pace")
            self.split = gr.Dropdown(
                [("shared", "total"), ("full for each", "each")], value=first["split"], label="Merged budget",
                elem_id="canopy-split")
            self.temperature = gr.Number(
                first["temperature"], step=0.1, label="Temperature", elem_id="canopy-temperature")
            with gr.Accordion("More", open=False, elem_id="canopy-more"), gr.Row(elem_id="canopy-fine"):
                self._fine(first, drafter_dropdown(rig.source, method))
        self.turns = gr.JSON([], visible=False)  # the turns before the prompt, which the browser holds

    def _fine(self, first: Mapping[str, Any], drafters: dict[str, Any]) -> None:
        """Add the remaining options, labelled from their declarations."""
        for name in [name for name in OPTIONS if name not in (*vars(self), "drafters", "turns", "forced")]:
            option, kind = OPTIONS[name], HINTS[name][0]
            about = {"label": option.name.removeprefix("The ").capitalize(), "info": option.help,
                     "elem_id": f"canopy-{name.replace('_', '-')}"}
            if kind in (int, float):
                precision, step = (0, 1) if kind is int else (None, FRACTION_STEP)
                field = gr.Number(first[name], precision=precision, step=step, **about)
            elif name in CHOICES:
                field = gr.Dropdown(list(CHOICES[name]), value=first[name], **about)
            else:
                field = gr.Textbox(_bias_text(first[name]), max_lines=1, **about)
            setattr(self, name, field)
        self.drafters = gr.Dropdown(label="Drafters", elem_id="canopy-drafters", **drafters)

    def setting(self) -> list[Any]:
        """Return the components that the lab's recommended setting fills in."""
        return [self.method, self.budget, self.split, self.pace]

    def inputs(self) -> list[Any]:
        """Return the components whose values make a request: one for each option of the bar, in their order."""
        return [getattr(self, name) for name in BAR_OPTIONS]

    def drafting(self) -> list[Any]:
        """Return the components about drafting, hidden for an attached server."""
        return [self.steps, self.budget, self.pace, self.split]

    def filled(self) -> list[Any]:
        """Return the components that a preset or an opened recording fills in."""
        return [*(getattr(self, name) for name in FILLED_OPTIONS), self.drafters]


def _wire(controls: Controls) -> None:
    browser_only: dict[str, Any] = {"fn": None, "queue": False, "api_visibility": "private"}
    gr.on([controls.run.click, controls.prompt.submit], **browser_only, inputs=controls.inputs(),
          js=_call("run", BAR_OPTIONS))
    controls.stop.click(**browser_only, js="() => { Canopy.controls.stop(); }")
    controls.steps.input(**browser_only, inputs=controls.steps, outputs=controls.budget,
                         js="(step) => Canopy.controls.budgetOf(step)")
    controls.budget.change(**browser_only, inputs=controls.budget, outputs=controls.steps,
                           js="(budget) => Canopy.controls.stepOf(budget)")
    watched: list[Any] = [getattr(controls, name) for name in FILLED_OPTIONS]
    for control in watched:
        control.change(**browser_only, inputs=watched, js=_call("onSettingsChanged", FILLED_OPTIONS))


def _call(name: str, options: Sequence[str]) -> str:
    """Return JavaScript that calls a function of the controls with the values of options by their names."""
    bar = f"Object.fromEntries({json.dumps(options)}.map((name, place) => [name, values[place]]))"
    return f"(...values) => {{ Canopy.controls.{name}({bar}); }}"


def _update_bar(page: gr.Blocks, controls: Controls, stage: gr.HTML, rig: CurrentRig, presets: Presets) -> None:
    """Connect the handlers that update the bar when the rig, preset, method or opened run changes."""
    def drafters(method: str, selection: Any) -> Any:
        return gr.Dropdown(**drafter_dropdown(rig.source, fitting(method, list(METHODS)), selection))

    def refresh(method: str, budget: Any, selection: Any) -> list[Any]:
        """Update the bar to the rig: when a page opens, since the rig may have changed after the page was built, and
        when the first rig is loaded."""
        methods = list(rig.source.methods)
        defaults = default_setting(rig.instruments.opened_as) if (method, budget) == controls.opened_with else {}
        # a method that can be run stays: a recording may have filled in another by the time that this arrives
        shown_method = fitting(defaults.get("method", method), methods)
        method_change = {} if shown_method == method else {"value": shown_method}
        editable = methods != [SERVED]  # an attached server drafts as it was started
        steps, nodes, *drafting = (gr.update(interactive=editable) for _ in controls.drafting())
        nodes |= {"value": defaults["budget"]} if defaults.get("budget", budget) != budget else {}
        return [gr.Dropdown(choices=methods, **method_change), gr.Dropdown(choices=titles(presets.for_rig(rig))),
                drafters(shown_method, names_of(selection)), steps, nodes, *drafting]

    def fill_from_preset(name: str | None) -> list[Any]:
        """Fill the bar from a preset and clear the list, whose value Gradio sends whenever it loses the focus."""
        preset = next((preset for preset in presets.for_rig(rig) if preset.name == name), None)
        if preset is None:
            return [gr.skip()] * len(outputs)
        method = fitting(preset.request.method, rig.source.methods)
        return [*_values({**options_of(preset.request), "method": method}),
                gr.Dropdown(**drafter_dropdown(rig.source, method)), gr.Dropdown(value=None)]

    def fit_drafters(method: str, selection: Any) -> Any:
        return drafters(method, names_of(selection))

    def adopt_run(event: gr.EventData) -> list[Any]:
        """Fill the bar with the settings of a run, whose header the browser sends; its drafters if the rig has them."""
        return [*_values(event._data), drafters(event._data["method"], event._data["drafters"])]

    restored_fields = [controls.method, controls.budget, controls.prompt]
    outputs = [*controls.filled(), controls.preset]
    restored = page.load(
        None, restored_fields, [*restored_fields, controls.steps], queue=False, api_visibility="private",
        js="(...values) => Canopy.controls.restore(...values)")
    inputs, drafter_inputs = [controls.method, controls.budget, controls.drafters], [controls.method, controls.drafters]
    refreshed = [controls.method, controls.preset, controls.drafters, *controls.drafting()]
    # the rig's defaults arrive late, so they must not replace the setting of a run that fills the bar
    unless_filled = {"js": "(method, budget, drafters) => [method, Canopy.controls.filled ? null : budget, drafters]",
                     **UNQUEUED}
    restored.then(bar_call(refresh), inputs, refreshed, preprocess=False, **unless_filled)
    stage.rig(bar_call(refresh), inputs, refreshed, preprocess=False, **unless_filled)
    selection = controls.preset.input(
        bar_call(fill_from_preset), controls.preset, outputs, preprocess=False,
        js="(name) => Canopy.controls.picked = [name]", **UNQUEUED)
    # pop: a click in the list sends its value twice, and the preset is to run once
    selection.then(None, js="() => { if (Canopy.controls.picked.pop()) Canopy.controls.runPreset(); }", **UNQUEUED)
    controls.method.change(bar_call(fit_drafters), drafter_inputs, controls.drafters, preprocess=False, **UNQUEUED)
    stage.adopt(bar_call(adopt_run), None, controls.filled(), **UNQUEUED)


def _setting_values(event: gr.EventData) -> list[Any]:
    """Return method, budget, split and pace as the lab measured them; all other fields stay."""
    method, budget, split, pace = (event._data.get(name) for name in ("method", "budget", "split", "pace"))
    return [method, budget, split or gr.skip(), pace or FIXED]


def _values(run: dict[str, Any]) -> list[Any]:
    run = {**DEFAULTS, **run}
    return [_bias_text(run[name]) if name == "logit_bias" else run[name] for name in FILLED_OPTIONS]


def _bias_text(biases: str | Iterable[tuple[int, float]]) -> str:
    """Format biases as a person types them; a bar's own text stays."""
    if isinstance(biases, str):
        return biases
    return ", ".join(f"{token}:{bias:g}" for token, bias in biases)
