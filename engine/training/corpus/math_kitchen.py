"""Word problems about baking, fruit and sharing food."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

KITCHEN: tuple[Template, ...] = (
    Template(
        name="trays_eaten",
        numbers="trays 2-9, each 2-12, eaten 2-20",
        steps="baked = trays * each; left = baked - eaten",
        things="bakery",
        prompts=(
            "{name} bakes {trays} trays of {a} with {each} {a} on each tray. {His} family eats {eaten} of"
            " them. How many {a} are left?",
            "On {trays} trays there are {each} {a} each. {eaten} {a} are eaten. How many {a} remain?",
            "A baker makes {trays} trays with {each} {a} each and sells {eaten} {a}. How many {a} does the"
            " baker still have?",
        ),
        responses=(
            "{first} the {trays} trays hold {baked_eq} {a}. {then} {eaten} {a} go away, which leaves"
            " {left_eq} {a}. {so} {left} {a} are left.",
            "There are {baked_eq} {a} on the trays. Without the {eaten} {a} that are gone, {left_eq} {a}"
            " remain.",
        ),
    ),
    Template(
        name="share_after_more",
        numbers="friends 2-9, share 2-12, bought 2-9",
        given="whole = friends * share; had = whole - bought",
        steps="all = had + bought; each = all / friends",
        things="fruit",
        prompts=(
            "{name} has {had} {a} and buys {bought} more. {He} shares all of them equally among {friends}"
            " children. How many {a} does each child get?",
            "There are {had} {a} in a bowl. {other} adds {bought} {a}, and then {friends} children share"
            " them equally. How many {a} does each child get?",
        ),
        responses=(
            "{first} there are {all_eq} {a} in all. {then} {friends} children share them: {each_eq} {a}."
            " {so} each child gets {each} {a}.",
            "With the {bought} new ones, there are {all_eq} {a}. Shared equally among {friends} children,"
            " that gives {each_eq} {a} for each child.",
        ),
    ),
    Template(
        name="eggs_recipe",
        numbers="cakes 2-9, eggs 2-8, had 11-30",
        steps="need = cakes * eggs; left = had - need",
        prompts=(
            "One cake needs {eggs} eggs. {name} has {had} eggs and bakes {cakes} cakes. How many eggs are"
            " left?",
            "{name} bakes {cakes} cakes with {eggs} eggs in each cake. There were {had} eggs in the"
            " kitchen. How many eggs remain?",
        ),
        responses=(
            "{cakes} cakes with {eggs} eggs each need {need_eq} eggs. Of the {had} eggs, {left_eq} eggs"
            " are left in the kitchen.",
            "{first} find the eggs that are needed: {need_eq} eggs. {then} take them from the {had} eggs:"
            " {left_eq} eggs. {so} {left} eggs remain.",
        ),
    ),
    Template(
        name="morning_afternoon",
        numbers="morning 11-90, noon 11-90, extra 11-60",
        steps="both = morning + noon; total = both + extra",
        things="bakery",
        prompts=(
            "A bakery sells {morning} {a} in the morning, {noon} {a} at noon and {extra} {a} in the"
            " evening. How many {a} does it sell in all?",
            "{name} sells {morning} {a} on {day}, {noon} on {next_day} and {extra} on Sunday. How many {a}"
            " is that altogether?",
        ),
        responses=(
            "{first} the first two sales make {both_eq} {a}. {then} the last {extra} {a} are added:"
            " {total_eq} {a}. {so} {total} {a} are sold in all.",
            "The first two numbers add up to {both_eq} {a}. With the {extra} {a} that were sold last, it"
            " is {total_eq} {a}.",
        ),
    ),
    Template(
        name="two_baskets",
        numbers="one 11-60, more 2-40",
        steps="second = one + more; total = one + second",
        things="fruit",
        prompts=(
            "One basket holds {one} {a}. A second basket holds {more} {a} more than the first. How many"
            " {a} are in both baskets?",
            "{name} picks {one} {a} and {other} picks {more} more than {name}. How many {a} do they pick"
            " together?",
            "On {day} {name} picks {one} {a}, and on {next_day} {he} picks {more} {a} more than on {day}."
            " How many {a} does {he} pick on both days?",
        ),
        responses=(
            "The second number is {second_eq} {a}. Both together make {total_eq} {a}. {so} there are"
            " {total} {a} in all.",
            "{first} find the larger part: {more} more than {one} is {second_eq}. {then} add both parts:"
            " {total_eq}. There are {total} {a} together.",
        ),
    ),
    Template(
        name="bad_fruit",
        numbers="boxes_n 2-9, each 3-20, bad 2-25, bags 2-40",
        steps="all = boxes_n * each; good = all - bad; total = good + bags",
        things="fruit",
        prompts=(
            "{name} gets {boxes_n} {boxes} with {each} {a} each. {bad} of the {a} are bad, and {he} throws"
            " them away. Then {he} buys {bags} fresh {a}. How many {a} does {he} have now?",
            "A cook opens {boxes_n} {boxes} of {each} {a}, throws out {bad} bad ones and adds {bags} {a}"
            " from the garden. How many {a} are there now?",
        ),
        responses=(
            "The {boxes} hold {all_eq} {a}. Without the {bad} bad ones, {good_eq} {a} are left. With"
            " {bags} more, there are {total_eq} {a}.",
            "{first} there are {all_eq} {a} in the {boxes}. {then} {bad} bad ones are taken away:"
            " {good_eq} {a}. Adding {bags} {a} gives {total_eq} {a}.",
        ),
    ),
    Template(
        name="pizza_slices",
        numbers="pizzas 2-9, slices 4-12, people 2-9, each 2-4",
        steps="all = pizzas * slices; eaten = people * each; left = all - eaten",
        prompts=(
            "{pizzas} pizzas are cut into {slices} slices each. {people} people eat {each} slices each."
            " How many slices are left?",
            "{name} orders {pizzas} pizzas with {slices} slices each. {people} guests eat {each} slices"
            " each. How many slices remain?",
        ),
        responses=(
            "The pizzas give {all_eq} slices. The {people} people eat {eaten_eq} slices. That leaves"
            " {left_eq} slices.",
            "{first} there are {all_eq} slices in all. {then} {people} people eat {eaten_eq} slices. The"
            " rest is {left_eq} slices. {so} {left} slices remain.",
        ),
    ),
    Template(
        name="pack_bags",
        numbers="bags 2-12, per 2-9, eaten 2-9",
        given="whole = bags * per; picked = whole + eaten",
        steps="left = picked - eaten; bags_n = left / per",
        things="fruit",
        prompts=(
            "{name} picks {picked} {a} and eats {eaten} of them. {He} packs the rest into bags of {per}."
            " How many bags does {he} fill?",
            "Of {picked} {a}, {eaten} are eaten. The others are packed into bags with {per} {a} each. How"
            " many bags are there?",
        ),
        responses=(
            "{first} {left_eq} {a} are left after {eaten} are eaten. {then} they go into bags of {per}:"
            " {bags_n_eq} bags. {so} there are {bags_n} bags.",
            "Without the {eaten} that are eaten, there are {left_eq} {a}. With {per} {a} in a bag, that"
            " fills {bags_n_eq} bags.",
        ),
    ),
    Template(
        name="lemonade",
        numbers="jugs 2-9, cups 3-12, spilled 2-9, price 2-3",
        steps="all = jugs * cups; sold = all - spilled; money = price * sold",
        prompts=(
            "{name} makes {jugs} jugs of lemonade. Each jug fills {cups} cups. {spilled} cups are spilled"
            " and the others are sold for {price} dollars each. How much money does {name} get?",
            "From {jugs} jugs of juice, {cups} cups can be filled with each. {name} drinks {spilled} cups"
            " and sells the rest for {price} dollars a cup. How many dollars does {he} get?",
        ),
        responses=(
            "The jugs fill {all_eq} cups. Without {spilled} cups, {sold_eq} cups are sold. At {price}"
            " dollars each, they bring {money_eq} dollars.",
            "{first} there are {all_eq} cups. {then} {spilled} cups are lost: {sold_eq} cups. Sold for"
            " {price} dollars each, they bring {money_eq} dollars.",
        ),
    ),
)
