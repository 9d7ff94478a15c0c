"""Word problems about gardens and farms."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

GARDEN: tuple[Template, ...] = (
    Template(
        name="rows_and_beds",
        numbers="rows 2-9, each 3-20, more 2-50",
        steps="planted = rows * each; total = planted + more",
        things="plants",
        prompts=(
            "{name} plants {rows} rows of {a} with {each} {a} in each row. Near the fence {he} plants"
            " {more} more. How many {a} does {he} plant?",
            "A garden has {rows} rows of {each} {a} and {more} {a} by the door. How many {a} grow in the"
            " garden?",
        ),
        responses=(
            "In the rows there are {planted_eq} {a}. With the {more} others, there are {total_eq} {a}."
            " {so} {total} {a} grow in the garden.",
            "{first} {rows} rows of {each} make {planted_eq} {a}. {then} add {more} {a}: {total_eq} {a}."
            " That is {total} {a} in all.",
        ),
    ),
    Template(
        name="frost",
        numbers="rows 3-9, each 3-20, dead 2-40",
        steps="planted = rows * each; alive = planted - dead",
        things="plants",
        prompts=(
            "{name} plants {rows} rows of {each} {a}. Frost kills {dead} of them. How many {a} survive?",
            "There were {rows} beds with {each} {a} each. After a storm, {dead} {a} are broken. How many"
            " {a} are still fine?",
        ),
        responses=(
            "{first} there were {planted_eq} {a}. {then} {dead} of them are lost: {alive_eq} {a}. {so}"
            " {alive} {a} are left.",
            "With {rows} times {each} plants, the garden had {planted_eq} {a}. Without the {dead} lost"
            " ones, {alive_eq} {a} are alive.",
        ),
    ),
    Template(
        name="bouquets",
        numbers="bunches 2-12, per 2-9, kept 2-9",
        given="whole = bunches * per; picked = whole + kept",
        steps="used = picked - kept; bunches_n = used / per",
        things="plants",
        prompts=(
            "{name} picks {picked} {a}, keeps {kept} and ties the others into bunches of {per}. How many"
            " bunches are there?",
            "From {picked} {a}, {name} puts {kept} in a vase. {He} makes bunches with {per} {a} each from"
            " the rest. How many bunches does {he} make?",
        ),
        responses=(
            "For the bunches, {used_eq} {a} can be used. With {per} {a} in a bunch, this makes"
            " {bunches_n_eq} bunches.",
            "{first} take away the {kept} {a} that are kept: {used_eq} {a}. {then} divide by {per}:"
            " {bunches_n_eq} bunches. {so} there are {bunches_n} bunches.",
        ),
    ),
    Template(
        name="eggs_week",
        numbers="hens 2-12, eggs 2-7, sold 2-20",
        steps="laid = hens * eggs; left = laid - sold",
        prompts=(
            "{hens} hens lay {eggs} eggs each in a week. The farmer sells {sold} eggs. How many eggs are"
            " left?",
            "{name} keeps {hens} hens, and every hen lays {eggs} eggs a week. {He} sells {sold} of the"
            " eggs. How many does {he} keep?",
        ),
        responses=(
            "The hens lay {laid_eq} eggs in a week. The farm sells {sold} eggs and keeps {left_eq} eggs.",
            "{first} {hens} hens with {eggs} eggs each give {laid_eq} eggs. {then} {sold} eggs are sold:"
            " {left_eq} eggs. {so} {left} eggs are left.",
        ),
    ),
    Template(
        name="animals_count",
        numbers="one 11-60, less 2-10, sold 2-9",
        steps="second = one - less; both = one + second; now = both - sold",
        things="animals",
        prompts=(
            "A farm has {one} {a} and {less} fewer {b} than {a}. The farmer sells {sold} animals. How many"
            " {a} and {b} are there now?",
            "{name} counts {one} {a} on a farm. There are {less} fewer {b} than {a}. Then {sold} of these"
            " animals are sold. How many animals remain?",
        ),
        responses=(
            "There are {second_eq} {b}. Both kinds together make {both_eq} animals. After {sold} are sold,"
            " {now_eq} animals remain.",
            "{first} the {b}: {second_eq}. {then} add the {one} {a}: {both_eq} animals. Selling {sold}"
            " leaves {now_eq} animals.",
        ),
    ),
    Template(
        name="legs",
        numbers="big 2-12, small 2-20",
        steps="four = 4 * big; two = 2 * small; legs = four + two",
        prompts=(
            "In a yard there are {big} goats and {small} ducks. How many legs do they have together?",
            "{name} sees {big} horses and {small} hens. A horse has 4 legs and a hen has 2 legs. How many"
            " legs does {he} count?",
            "How many legs do {big} dogs and {small} birds have in all?",
        ),
        responses=(
            "The {big} animals with 4 legs have {four_eq} legs. The {small} animals with 2 legs have"
            " {two_eq} legs. In all there are {legs_eq} legs.",
            "{first} count the four-legged ones: {four_eq} legs. {then} count the two-legged ones:"
            " {two_eq} legs. The sum is {legs_eq} legs.",
        ),
    ),
    Template(
        name="feed",
        numbers="animals_n 2-12, each 2-9, days 2-5",
        steps="daily = animals_n * each; total = days * daily",
        things="animals",
        prompts=(
            "Each of {animals_n} {a} eats {each} kilograms of feed a day. How many kilograms do they eat"
            " in {days} days?",
            "{name} gives {each} kilograms of feed a day to each of {his} {animals_n} {a}. How much feed"
            " is that in {days} days?",
        ),
        responses=(
            "In one day the {a} eat {daily_eq} kilograms. In {days} days they eat {total_eq} kilograms."
            " {so} {total} kilograms of feed are needed.",
            "{first} find the feed for one day: {daily_eq} kilograms. {then} take it {days} times:"
            " {total_eq} kilograms of feed for {days} days.",
        ),
    ),
)
