"""Word problems about work, ages and measures."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

WORK: tuple[Template, ...] = (
    Template(
        name="water_tank",
        numbers="tank 60-99, cans 2-9, liters 2-9, rain 2-30",
        steps="used = cans * liters; rest = tank - used; now = rest + rain",
        prompts=(
            "A tank holds {tank} liters of water. {name} takes out {cans} cans of {liters} liters. Then"
            " rain adds {rain} liters. How many liters are in the tank?",
            "{name} waters the garden with {cans} cans of {liters} liters from a tank with {tank} liters."
            " At night {rain} liters of rain fall into it. How much water does it hold now?",
        ),
        responses=(
            "The cans take {used_eq} liters. That leaves {rest_eq} liters. The rain brings it to {now_eq}"
            " liters.",
            "{first} {cans} cans of {liters} liters are {used_eq} liters. {then} the tank has {rest_eq}"
            " liters. With {rain} liters of rain, it holds {now_eq} liters.",
        ),
    ),
    Template(
        name="wages",
        numbers="hours 2-8, pay 8-20, tip 2-30",
        steps="wage = hours * pay; total = wage + tip",
        prompts=(
            "{name} works {hours} hours for {pay} dollars an hour and gets {tip} dollars extra. How many"
            " dollars does {he} earn?",
            "For {hours} hours of work, {name} gets {pay} dollars an hour. {other} adds a tip of {tip}"
            " dollars. How much money does {name} get?",
        ),
        responses=(
            "For {hours} hours, the wage is {wage_eq} dollars. With {tip} dollars on top, {name} gets"
            " {total_eq} dollars.",
            "{first} the work brings {wage_eq} dollars. {then} add the {tip} dollars: {total_eq} dollars."
            " {so} {name} earns {total} dollars.",
        ),
    ),
    Template(
        name="workers",
        numbers="workers 2-9, each 2-12, more 2-9",
        steps="all = workers + more; total = each * all",
        prompts=(
            "{workers} workers are joined by {more} others. Each of them lays {each} rows of stones. How"
            " many rows do they lay?",
            "A team of {workers} people gets {more} new members. Everyone plants {each} trees. How many"
            " trees does the team plant?",
        ),
        responses=(
            "Now there are {all_eq} people. Each of them does {each}, which makes {total_eq} in all. {so}"
            " the answer is {total}.",
            "{first} the team grows to {all_eq} people. {then} each person does {each}, and together they"
            " do {total_eq}.",
        ),
    ),
    Template(
        name="factory",
        numbers="hours 2-7, each 11-40, broken 2-30",
        steps="made = hours * each; good = made - broken",
        prompts=(
            "A machine makes {each} {a} an hour. After {hours} hours, {broken} of the {a} turn out to be"
            " broken. How many {a} are good?",
            "In a workshop {each} {a} are made every hour. {broken} of those made in {hours} hours cannot"
            " be sold. How many {a} can be sold?",
        ),
        responses=(
            "In {hours} hours {made_eq} {a} are made. Without the {broken} bad ones, {good_eq} {a} are"
            " good.",
            "{first} find what is made in {hours} hours: {made_eq} {a}. {then} take away {broken}:"
            " {good_eq} {a}. {so} {good} {a} are good.",
        ),
    ),
    Template(
        name="age",
        numbers="young 5-30, older 2-30, years 2-15",
        steps="now = young + older; later = now + years",
        prompts=(
            "{name} is {young} years old. {other} is {older} years older. How old will {other} be in"
            " {years} years?",
            "{other} is {older} years older than {name}, who is {young}. What will be the age of {other}"
            " after {years} years?",
        ),
        responses=(
            "{other} is {now_eq} years old today. In {years} years {other} will be {later_eq} years old.",
            "{first} the age of {other} now is {now_eq} years. {then} {years} years pass: {later_eq}"
            " years. {so} {other} will be {later} years old.",
        ),
    ),
    Template(
        name="rope",
        numbers="rope 60-99, pieces 2-9, length 2-9",
        steps="cut = pieces * length; left = rope - cut",
        prompts=(
            "From a rope of {rope} meters, {name} cuts {pieces} pieces of {length} meters. How many meters"
            " are left?",
            "{name} has {rope} meters of wire and uses {pieces} pieces that are {length} meters long. How"
            " much wire remains, in meters?",
        ),
        responses=(
            "The {pieces} pieces take {cut_eq} meters. From {rope} meters, {left_eq} meters are left over.",
            "{first} find the length of the pieces: {cut_eq} meters. {then} take it from {rope} meters:"
            " {left_eq} meters. {so} {left} meters remain.",
        ),
    ),
    Template(
        name="fence",
        numbers="long 5-60, wide 3-40",
        steps="side = long + wide; around = 2 * side",
        prompts=(
            "A garden is {long} meters long and {wide} meters wide. How many meters of fence go around it?",
            "{name} wants a fence around a field of {long} meters by {wide} meters. How long must the"
            " fence be?",
        ),
        responses=(
            "One long side and one short side make {side_eq} meters. There are two of each, so the fence"
            " has {around_eq} meters.",
            "{first} add the length and the width: {side_eq} meters. {then} double it: {around_eq} meters."
            " {so} the fence is {around} meters long.",
        ),
    ),
)
