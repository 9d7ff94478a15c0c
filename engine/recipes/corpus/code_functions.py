"""The code domain: a request for one short Python function, and the function with an example call."""

from __future__ import annotations

import random

from engine.recipes.corpus.code_families import make_task
from engine.recipes.corpus.code_frame import (
    CLOSINGS,
    MAXIMUM_RESPONSE_CHARACTERS,
    FunctionTask,
    assertions_of,
    request_of,
    response_of,
)
from engine.recipes.corpus.code_list_families import LIST_FAMILIES
from engine.recipes.corpus.code_number_families import NUMBER_FAMILIES
from engine.recipes.corpus.code_pipelines import make_pipeline
from engine.recipes.corpus.code_record_families import RECORD_FAMILIES
from engine.recipes.corpus.code_text_families import TEXT_FAMILIES
from engine.recipes.corpus.items import Item

PIPELINE_SHARE = 0.45  # of the tasks are composed from a filter, a map and a reduction
FAMILIES = LIST_FAMILIES + NUMBER_FAMILIES + TEXT_FAMILIES + RECORD_FAMILIES


def draw_task(random: random.Random) -> FunctionTask:
    """One function to write, composed or from the families."""
    if random.random() < PIPELINE_SHARE:
        return make_pipeline(random)
    return make_task(random.choice(FAMILIES), random)


def make_code(random: random.Random) -> Item:
    """One item of the code domain; its check is three assertions on fresh arguments."""
    while True:
        task = draw_task(random)
        typed = random.random() < 0.5
        prompt = request_of(task, typed, random)
        response = response_of(task, typed, random.choice(CLOSINGS))
        if len(response) <= MAXIMUM_RESPONSE_CHARACTERS:
            return Item("code", prompt, response, assertions_of(task))
