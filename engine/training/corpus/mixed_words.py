"""Word problems of one or two steps, as tables: story, parameters, and the steps that solve it."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "June", "Kai", "Lena", "Mara",
         "Nils")
THINGS = ("books", "apples", "pencils", "stamps", "shells", "cards", "marbles", "corks", "cups", "nails",
          "beads")
BOXES = ("boxes", "bags", "crates", "baskets", "trays", "jars")
PLACES = ("shop", "school", "farm", "library", "club", "market")


@dataclass(frozen=True)
class Step:
    """One operation: its result's name, the operator, both operands, and sentences that say it."""

    result: str
    operator: str
    left: str
    right: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """A story over ``$`` slots (parameters, and N, M, T, B, P for names, thing, container, place).

    ``parameters`` are (name, lowest, highest); ``purpose`` completes "a function that returns ...".
    """

    family: str
    names: tuple[str, ...]
    stories: tuple[str, ...]
    parameters: tuple[tuple[str, int, int], ...]
    steps: tuple[Step, ...]
    purpose: tuple[str, ...]


PROBLEMS = (
    Problem("boxes_loose", ("total_things", "count_all", "things_in_all"),
            ("$N has $count $B with $each $T in each, and $loose loose $T. How many $T are there?",
             "There are $each $T in each of $count $B, and $loose more lie beside them. How many $T "
             "is that?"),
            (("count", 2, 9), ("each", 2, 35), ("loose", 2, 60)),
            (Step("packed", "*", "count", "each", ("The $B hold $eq $T", "In the $B there are $eq $T")),
             Step("total", "+", "packed", "loose", ("With the $loose loose ones, there are $eq $T",
                                                    "Adding the $loose others gives $eq $T"))),
            ("the number of $T", "how many $T there are")),
    Problem("boxes_given", ("things_left", "remaining", "left_after_giving"),
            ("$N fills $count $B with $each $T each and gives away $given $T. How many $T are left?",
             "$N has $count $B of $each $T. $M takes $given of the $T. How many remain?"),
            (("count", 2, 9), ("each", 3, 30), ("given", 2, 60)),
            (Step("packed", "*", "count", "each", ("At first there are $eq $T", "$N starts with $eq $T")),
             Step("left", "-", "packed", "given",
                  ("After that, $eq $T are left", "Taking away $given leaves $eq $T"))),
            ("the number of $T left", "how many $T remain")),
    Problem("change", ("change_due", "money_back", "change_from"),
            ("$N buys $count $T for $price coins each and pays with $paid coins. How many coins come back?",
             "$count $T cost $price coins each. $N pays $paid coins. What is the change?"),
            (("count", 2, 9), ("price", 2, 12), ("paid", 20, 99)),
            (Step("cost", "*", "count", "price", ("The $T cost $eq coins", "$N owes $eq coins")),
             Step("change", "-", "paid", "cost", ("The change is $eq coins", "So $eq coins come back"))),
            ("the change", "how many coins come back")),
    Problem("share", ("share_each", "each_gets", "equal_share"),
            ("$N shares $things $T equally among $people friends. How many does each one get?",
             "$people children split $things $T evenly. How many $T does each child get?"),
            (("things", 4, 99), ("people", 2, 12)),
            (Step("share", "/", "things", "people", ("Each one gets $eq $T", "The share is $eq $T")),),
            ("the share of each one", "how many $T each one gets")),
    Problem("share_extra", ("share_with_extra", "share_plus", "final_share"),
            ("$people friends share $things $T equally, and then each finds $extra more. How many "
             "$T has each now?",
             "$things $T are split evenly among $people friends. Each gets $extra more later. How "
             "many has each one?"),
            (("things", 4, 99), ("people", 2, 12), ("extra", 2, 40)),
            (Step("share", "/", "things", "people",
                  ("Each one first gets $eq $T", "The equal share is $eq $T")),
             Step("total", "+", "share", "extra",
                  ("With $extra more, each has $eq $T", "Then each one has $eq $T"))),
            ("how many $T each one has", "the final number of $T for each")),
    Problem("pool_share", ("pool_and_share", "shared_pool", "split_together"),
            ("$N has $first $T and $M has $second. They put them into $count $B equally. How many "
             "go in each?",
             "$first $T from $N and $second from $M are spread evenly over $count $B. How many does "
             "each hold?"),
            (("first", 2, 70), ("second", 2, 70), ("count", 2, 12)),
            (Step("both", "+", "first", "second", ("Together they have $eq $T", "In all there are $eq $T")),
             Step("each", "/", "both", "count", ("Each holds $eq $T", "So $eq $T go in each"))),
            ("how many $T go in each", "the number of $T in each")),
    Problem("two_days", ("two_day_total", "sum_of_days", "both_days"),
            ("The $P sells $first $T on Monday and $more more than that on Tuesday. How many over both days?",
             "On day one the $P counts $first $T, on day two $more more. How many $T on both days?"),
            (("first", 5, 99), ("more", 2, 50)),
            (Step("second", "+", "first", "more",
                  ("The second day has $eq $T", "On the second day it is $eq $T")),
             Step("total", "+", "first", "second", ("Both days make $eq $T", "Together that is $eq $T"))),
            ("the total of both days", "how many $T there are on both days")),
    Problem("rows_broken", ("usable_seats", "seats_left", "working_seats"),
            ("A hall has $rows rows of $seats seats, and $broken seats are broken. How many can be used?",
             "The $P sets up $rows rows of $seats seats. $broken of them are broken. How many seats work?"),
            (("rows", 2, 9), ("seats", 4, 40), ("broken", 2, 30)),
            (Step("all_seats", "*", "rows", "seats", ("There are $eq seats", "The rows have $eq seats")),
             Step("usable", "-", "all_seats", "broken",
                  ("Of these, $eq can be used", "That leaves $eq seats"))),
            ("the number of seats that work", "how many seats can be used")),
    Problem("trip", ("distance_left", "rest_of_trip", "kilometres_left"),
            ("A trip is $distance km long. $N drives $hours hours at $speed km per hour. How many "
             "km are left?",
             "$N travels $speed km each hour for $hours hours on a way of $distance km. How many km remain?"),
            (("distance", 60, 350), ("hours", 2, 6), ("speed", 10, 60)),
            (Step("driven", "*", "hours", "speed", ("$N covers $eq km", "In that time $N makes $eq km")),
             Step("left", "-", "distance", "driven", ("There are $eq km left", "So $eq km remain"))),
            ("the distance left", "how many km remain")),
    Problem("savings", ("savings_after", "saved_money", "money_after"),
            ("$N has $start coins and saves $weekly coins a week. How many coins after $weeks weeks?",
             "With $start coins at first, $N puts aside $weekly coins every week for $weeks weeks. "
             "How many then?"),
            (("start", 5, 99), ("weekly", 2, 30), ("weeks", 2, 9)),
            (Step("saved", "*", "weekly", "weeks", ("$N saves $eq coins", "The weeks bring $eq coins")),
             Step("total", "+", "start", "saved", ("With the first $start, that makes $eq coins",
                                                   "In the end $N has $eq coins"))),
            ("the coins at the end", "how many coins there are at the end")),
    Problem("two_kinds", ("total_cost", "price_of_both", "bill"),
            ("$N buys $first items at $price coins each and one bag for $bag coins, then pays $fee "
             "for delivery. "
             "What is the bill?",
             "An order has $first items for $price coins each, a bag for $bag coins and $fee coins "
             "of delivery. "
             "What does $N pay?"),
            (("first", 2, 9), ("price", 2, 12), ("bag", 2, 30), ("fee", 2, 20)),
            (Step("goods", "*", "first", "price",
                  ("The items cost $eq coins", "For the items $N pays $eq coins")),
             Step("packed", "+", "goods", "bag",
                  ("With the bag it is $eq coins", "The bag makes it $eq coins")),
             Step("bill", "+", "packed", "fee", ("With delivery the bill is $eq coins",
                                                 "Delivery brings it to $eq coins"))),
            ("the whole bill", "how many coins are paid")),
    Problem("groups_needed", ("trips_needed", "groups_needed", "rounds"),
            ("$N has $things $T, loses $lost and packs the rest into $B of $each. How many $B are filled?",
             "Of $things $T, $lost are broken. $N puts the others into $B of $each. How many $B "
             "does $N fill?"),
            (("things", 10, 99), ("lost", 2, 40), ("each", 2, 12)),
            (Step("good", "-", "things", "lost", ("There are $eq $T to pack", "That leaves $eq $T")),
             Step("filled", "/", "good", "each", ("They fill $eq $B", "So $N fills $eq $B"))),
            ("the number of $B filled", "how many $B are filled")),
    Problem("older", ("age_sum", "ages_together", "both_ages"),
            ("$N is $age years old and $M is $times times as old. How old are they together?",
             "$M is $times times the age of $N, who is $age. What is the sum of their ages?"),
            (("age", 3, 15), ("times", 2, 6)),
            (Step("other", "*", "times", "age", ("$M is $eq years old", "The age of $M is $eq")),
             Step("total", "+", "age", "other", ("Together they are $eq years old", "The sum is $eq"))),
            ("the sum of both ages", "how old both are together")),
    Problem("pages", ("days_to_finish", "reading_days", "days_left"),
            ("A book has $pages pages and $N has read $read. $N reads $daily pages a day. How many "
             "days are left?",
             "$N has read $read of $pages pages and goes on with $daily pages each day. How many "
             "more days is that?"),
            (("pages", 20, 99), ("read", 5, 60), ("daily", 3, 12)),
            (Step("rest", "-", "pages", "read", ("There are $eq pages to go", "The rest is $eq pages")),
             Step("days", "/", "rest", "daily", ("That takes $eq days", "So it takes $eq days"))),
            ("the number of days left", "how many days the rest takes")),
    Problem("garden", ("fence_length", "border_length", "way_around"),
            ("A garden is $length m long and $width m wide. How many metres of fence go all around it?",
             "$N walks once around a field of $length m by $width m. How many metres is that?"),
            (("length", 3, 60), ("width", 2, 40)),
            (Step("half", "+", "length", "width",
                  ("Two sides make $eq m", "One long and one short side are $eq m")),
             Step("around", "+", "half", "half", ("The way around is $eq m", "All four sides are $eq m"))),
            ("the length around", "how many metres the border has")),
    Problem("tiles", ("tiles_missing", "tiles_to_buy", "tiles_needed"),
            ("A floor needs $rows rows of $across tiles. $N has $owned tiles. How many are missing?",
             "$N wants to lay $rows rows with $across tiles each but owns only $owned. How many "
             "more are needed?"),
            (("rows", 2, 9), ("across", 3, 30), ("owned", 2, 80)),
            (Step("needed", "*", "rows", "across", ("The floor needs $eq tiles", "It takes $eq tiles")),
             Step("missing", "-", "needed", "owned",
                  ("So $eq tiles are missing", "$N still needs $eq tiles"))),
            ("the number of tiles missing", "how many tiles are missing")),
    Problem("bus", ("people_on_bus", "riders_after", "passengers"),
            ("A bus has $start riders. At a stop $off get off and $on get on. How many riders are "
             "on the bus?",
             "$start people ride a bus. Then $off leave and $on come in. How many people are on it now?"),
            (("start", 10, 80), ("off", 2, 40), ("on", 2, 40)),
            (Step("stayed", "-", "start", "off",
                  ("After the exit there are $eq people", "First $eq stay on")),
             Step("riders", "+", "stayed", "on",
                  ("Then there are $eq people", "With the new ones there are $eq"))),
            ("the number of people on the bus", "how many people ride on")),
    Problem("teams", ("players_per_team", "team_size", "size_of_teams"),
            ("$classes classes of $pupils pupils form $teams equal teams. How many pupils are in each team?",
             "The pupils of $classes classes, $pupils in each, split into $teams equal teams. How "
             "large is a team?"),
            (("classes", 2, 9), ("pupils", 4, 12), ("teams", 2, 12)),
            (Step("everyone", "*", "classes", "pupils",
                  ("There are $eq pupils", "The classes have $eq pupils")),
             Step("size", "/", "everyone", "teams",
                  ("Each team has $eq pupils", "A team is $eq pupils large"))),
            ("the size of each team", "how many pupils each team has")),
)
