"""Word problems about classes, books and collections."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

SCHOOL: tuple[Template, ...] = (
    Template(
        name="boxes_and_loose",
        numbers="count 2-9, each 2-20, loose 2-60",
        steps="held = count * each; total = held + loose",
        things="books",
        prompts=(
            "{name} has {count} {boxes} with {each} {a} each and {loose} loose {a}. How many {a} does {he}"
            " have?",
            "There are {each} {a} in each of {count} {boxes}. Another {loose} {a} lie on the table. How"
            " many {a} are there in all?",
            "{count} {boxes} hold {each} {a} each. {name} finds {loose} more {a}. What is the number of"
            " {a} now?",
        ),
        responses=(
            "The {boxes} hold {held_eq} {a}. With the {loose} other ones, there are {total_eq} {a}. {so}"
            " there are {total} {a}.",
            "{first} count the {a} in the {boxes}: {held_eq} {a}. {then} add the other {loose}: {total_eq}"
            " {a}. That is {total} {a} in all.",
        ),
    ),
    Template(
        name="gift_and_find",
        numbers="had 20-99, gave 2-19, found 2-60",
        steps="rest = had - gave; now = rest + found",
        things="cards",
        prompts=(
            "{name} has {had} {a}. {He} gives {gave} {a} to {other} and then finds {found} more. How many"
            " {a} does {name} have now?",
            "From {his} {had} {a}, {name} gives away {gave}. Later {he} gets {found} new ones. How many"
            " {a} does {he} have then?",
            "{name} collects {a}. {He} had {had}, lost {gave} and bought {found}. How many {a} are in the"
            " collection now?",
        ),
        responses=(
            "After {gave} {a} are gone, {name} has {rest_eq} {a}. The {found} new ones bring this to"
            " {now_eq} {a}. {so} {name} has {now} {a}.",
            "{first} take {gave} from {had}: {rest_eq} {a}. {then} add the {found} new ones: {now_eq} {a}."
            " Now {name} has {now} {a}.",
        ),
    ),
    Template(
        name="times_as_many",
        numbers="one 2-20, times 2-9",
        steps="second = times * one; both = second + one",
        things="cards",
        prompts=(
            "{name} has {one} {a}. {other} has {times} times as many. How many {a} do they have together?",
            "{other} owns {times} times as many {a} as {name}. {name} owns {one} {a}. How many {a} do both"
            " own in all?",
        ),
        responses=(
            "{other} has {times} times as many as {name}, which is {second_eq} {a}. Together they have"
            " {both_eq} {a}.",
            "{first} {other} has {second_eq} {a}. {then} add the {one} {a} of {name}: {both_eq} {a}. {so}"
            " they have {both} {a} together.",
        ),
    ),
    Template(
        name="class_groups",
        numbers="groups 2-9, size 2-6, girls 4-19",
        given="whole = groups * size; boys = whole - girls",
        steps="all = girls + boys; per = all / groups",
        prompts=(
            "A class has {girls} girls and {boys} boys. The teacher forms {groups} equal groups. How many"
            " children are in each group?",
            "{girls} girls and {boys} boys go on a trip and walk in {groups} groups of the same size. How"
            " many children walk in each group?",
        ),
        responses=(
            "{first} the class has {all_eq} children. {then} they form {groups} equal groups: {per_eq}"
            " children. {so} each group has {per} children.",
            "Girls and boys together are {all_eq} children. In {groups} equal groups, there are {per_eq}"
            " children in each group.",
        ),
    ),
    Template(
        name="pages_left",
        numbers="daily 5-30, days 2-7, more 11-90",
        given="read = days * daily; pages = read + more",
        steps="read = days * daily; left = pages - read",
        prompts=(
            "A book has {pages} pages. {name} reads {daily} pages a day for {days} days. How many pages"
            " are left?",
            "{name} reads {daily} pages every day. {His} book has {pages} pages. How many pages remain"
            " after {days} days?",
            "After reading {daily} pages a day for {days} days, how many of the {pages} pages of a book"
            " are still unread?",
        ),
        responses=(
            "In {days} days, {daily} pages a day make {read_eq} pages. Of the {pages} pages, {left_eq}"
            " pages are left.",
            "{first} find the pages that are read: {read_eq} pages. {then} take them from {pages} pages:"
            " {left_eq} pages. {so} {left} pages are left to read.",
        ),
    ),
    Template(
        name="rows_of_chairs",
        numbers="rows 3-9, seats 5-30, people 11-99",
        steps="chairs = rows * seats; empty = chairs - people",
        prompts=(
            "A hall has {rows} rows with {seats} chairs each. {people} people sit down. How many chairs"
            " are empty?",
            "For the school play, {name} sets up {rows} rows of {seats} chairs. {people} guests come. How"
            " many chairs stay empty?",
        ),
        responses=(
            "The hall has {chairs_eq} chairs. People sit on {people} of them, so {empty_eq} chairs are"
            " empty. {so} {empty} chairs stay free.",
            "{first} find all the chairs: {chairs_eq} chairs. {then} take away {people} for the people:"
            " {empty_eq} chairs are empty.",
        ),
    ),
    Template(
        name="hand_out",
        numbers="children 2-12, per 2-9, had 30-99",
        steps="given_out = children * per; left = had - given_out",
        things="stationery",
        prompts=(
            "A teacher has {had} {a} and gives {per} {a} to each of {children} children. How many {a} does"
            " the teacher keep?",
            "{name} brings {had} {a} to school. Each of the {children} children gets {per}. How many {a}"
            " are left over?",
        ),
        responses=(
            "The {children} children get {given_out_eq} {a}. From the {had} {a}, {left_eq} {a} are left"
            " over.",
            "{first} {children} children with {per} each get {given_out_eq} {a}. {then} take this from"
            " {had}: {left_eq} {a}. {so} {left} {a} are left.",
        ),
    ),
    Template(
        name="two_kinds",
        numbers="packs 2-9, each 4-12, boxes_n 2-9, per 4-12",
        steps="one = packs * each; two = boxes_n * per; total = one + two",
        things="stationery",
        prompts=(
            "{name} buys {packs} packs of {each} {a} and {boxes_n} packs of {per} {b}. How many things"
            " does {he} buy in all?",
            "In the cupboard there are {packs} packs with {each} {a} each and {boxes_n} packs with {per}"
            " {b} each. How many {a} and {b} are there together?",
        ),
        responses=(
            "There are {one_eq} {a} and {two_eq} {b}. Together they are {total_eq} things. {so} the number"
            " is {total}.",
            "{first} the {a}: {one_eq}. {then} the {b}: {two_eq}. The sum of both is {total_eq}, so there"
            " are {total} things in all.",
        ),
    ),
    Template(
        name="points",
        numbers="games 2-9, points 3-15, bonus 5-40, lost 2-20",
        steps="won = games * points; more = won + bonus; total = more - lost",
        prompts=(
            "{name} wins {games} games with {points} points each, gets a bonus of {bonus} points and loses"
            " {lost} points. How many points does {he} have?",
            "A team gets {points} points for each of {games} wins and {bonus} extra points. It loses"
            " {lost} points for fouls. What is its score?",
        ),
        responses=(
            "The wins give {won_eq} points. The bonus makes it {more_eq} points. Losing {lost} points"
            " leaves {total_eq} points.",
            "{first} the wins bring {won_eq} points. {then} add the bonus of {bonus}: {more_eq} points."
            " Take away {lost}: {total_eq} points.",
        ),
    ),
    Template(
        name="how_many_more",
        numbers="one 30-99, two 11-60, gift 2-20",
        steps="now = two + gift; gap = one - now",
        things="cards",
        prompts=(
            "{name} has {one} {a} and {other} has {two}. {other} gets {gift} more. How many more {a} does"
            " {name} have now?",
            "{other} had {two} {a} and bought {gift}. {name} has {one} {a}. By how many is the collection"
            " of {name} larger?",
        ),
        responses=(
            "{other} now has {now_eq} {a}. The difference to the {one} {a} of {name} is {gap_eq} {a}. {so}"
            " {name} has {gap} more.",
            "{first} {other} comes to {now_eq} {a}. {then} compare with {name}: {gap_eq} {a}. {name} has"
            " {gap} {a} more than {other}.",
        ),
    ),
)
