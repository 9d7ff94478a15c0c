"""Word problems about prices, change and savings."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

SHOPPING: tuple[Template, ...] = (
    Template(
        name="two_purchases",
        numbers="many 2-9, price 2-12, more 2-9, cost 2-12",
        steps="left = many * price; right = more * cost; total = left + right",
        things="clothes",
        prompts=(
            "{name} buys {many} {a} for {price} dollars each and {more} {b} for {cost} dollars each. How"
            " much does {he} pay?",
            "At the {shop}, {aa} costs {price} dollars and {bb} costs {cost} dollars. {name} takes {many}"
            " {a} and {more} {b}. What is the total price?",
            "How many dollars do {many} {a} at {price} dollars each and {more} {b} at {cost} dollars each"
            " cost together?",
        ),
        responses=(
            "{first} the {a} cost {left_eq} dollars. {then} the {b} cost {right_eq} dollars. Together that"
            " is {total_eq} dollars. {so} the total price is {total} dollars.",
            "{many} {a} at {price} dollars each cost {left_eq} dollars. {more} {b} at {cost} dollars each"
            " cost {right_eq} dollars. The sum is {total_eq} dollars.",
        ),
    ),
    Template(
        name="change_back",
        numbers="many 4-9, price 5-11, note 5-10",
        given="paid = note * 10",
        steps="spent = many * price; back = paid - spent",
        things="stationery",
        prompts=(
            "{name} buys {many} {a} that cost {price} dollars each and pays with {paid} dollars. How much"
            " change does {he} get?",
            "One {a1} costs {price} dollars. {name} takes {many} of them and hands over {paid} dollars."
            " How many dollars does {he} get back?",
            "At the {shop}, {name} pays for {many} {a} with {paid} dollars. Each {a1} costs {price}"
            " dollars. What is the change?",
        ),
        responses=(
            "{first} the {many} {a} cost {spent_eq} dollars. {name} pays with {paid} dollars, and the"
            " change is {back_eq} dollars. {so} {name} gets {back} dollars back.",
            "The price of {many} {a} at {price} dollars each is {spent_eq} dollars. From the {paid}"
            " dollars, {back_eq} dollars come back to {name}.",
        ),
    ),
    Template(
        name="money_left",
        numbers="had 50-99, first_price 11-40, second_price 11-40",
        steps="rest = had - first_price; left = rest - second_price",
        things="clothes",
        prompts=(
            "{name} has {had} dollars. {He} buys {aa} for {first_price} dollars and {bb} for"
            " {second_price} dollars. How much money is left?",
            "With {had} dollars in {his} purse, {name} goes to the {shop} and buys {aa} for {first_price}"
            " dollars and {bb} for {second_price} dollars. How many dollars does {he} still have?",
        ),
        responses=(
            "{first} {name} pays {first_price} dollars for the {a1}, which leaves {rest_eq} dollars."
            " {then} {he} pays {second_price} dollars for the {b1}, which leaves {left_eq} dollars.",
            "After the {a1}, {name} has {rest_eq} dollars. After the {b1}, {he} has {left_eq} dollars."
            " {so} {left} dollars of the {had} dollars are left.",
        ),
    ),
    Template(
        name="weekly_savings",
        numbers="weekly 2-15, weeks 3-9, had 10-60",
        steps="saved = weeks * weekly; total = saved + had",
        prompts=(
            "{name} saves {weekly} dollars every week. {He} already has {had} dollars. How much does {he}"
            " have after {weeks} weeks?",
            "There are {had} dollars in the money box of {name}, and each week {he} adds {weekly} dollars."
            " How many dollars are in it after {weeks} weeks?",
            "{name} starts with {had} dollars and puts away {weekly} dollars a week. What does {he} own"
            " after {weeks} weeks?",
        ),
        responses=(
            "In {weeks} weeks {name} saves {saved_eq} dollars. With the {had} dollars from the start, that"
            " makes {total_eq} dollars. {so} {name} has {total} dollars.",
            "{first} find the savings: {weeks} weeks at {weekly} dollars give {saved_eq} dollars. {then}"
            " add the {had} dollars that were there before: {total_eq} dollars.",
        ),
    ),
    Template(
        name="still_to_save",
        numbers="weekly 2-12, weeks 2-9, more 11-60",
        given="saved = weeks * weekly; price = saved + more",
        steps="saved = weeks * weekly; missing = price - saved",
        things="clothes",
        prompts=(
            "{name} wants {aa} that costs {price} dollars. {He} saves {weekly} dollars a week for {weeks}"
            " weeks. How many dollars are still missing?",
            "{Aa} costs {price} dollars. {name} has put away {weekly} dollars a week for {weeks} weeks."
            " How much more does {he} need?",
        ),
        responses=(
            "In {weeks} weeks {name} saves {saved_eq} dollars. The {a1} costs {price} dollars, and the"
            " missing part is {missing_eq} dollars. {so} {name} needs {missing} more dollars.",
            "{first} the savings are {saved_eq} dollars after {weeks} weeks. {then} compare with the price"
            " of {price} dollars: {missing_eq} dollars are missing.",
        ),
    ),
    Template(
        name="price_of_one",
        numbers="many 2-9, price 2-12, extra 2-9",
        given="total = many * price",
        steps="one = total / many; cost = extra * one",
        things="toys",
        prompts=(
            "{many} {a} cost {total} dollars. How many dollars do {extra} {a} cost?",
            "{name} paid {total} dollars for {many} {a}. {other} wants to buy {extra} {a} at the same"
            " price. How much will {other} pay?",
            "At the {shop}, {name} buys {many} {a} for {total} dollars. What would {extra} {a} cost there?",
        ),
        responses=(
            "{first} find the price of one {a1}: {one_eq} dollars. {then} take it {extra} times: {cost_eq}"
            " dollars. {so} {extra} {a} cost {cost} dollars.",
            "{many} {a} cost {total} dollars, and one {a1} costs {one_eq} dollars. The price of {extra}"
            " {a} is {cost_eq} dollars.",
        ),
    ),
    Template(
        name="coupon",
        numbers="many 2-9, price 5-12, coupon 2-15",
        steps="full = many * price; paid = full - coupon",
        prompts=(
            "{name} buys {many} {a} for {price} dollars each and uses a coupon worth {coupon} dollars. How"
            " much does {he} pay?",
            "{Aa} costs {price} dollars at the {shop}. {name} takes {many} of them and has a coupon that"
            " lowers the bill by {coupon} dollars. What is the bill?",
        ),
        responses=(
            "Without the coupon, {many} {a} cost {full_eq} dollars. The coupon takes away {coupon}"
            " dollars, so the bill is {paid_eq} dollars. {name} pays {paid} dollars.",
            "{first} the {many} {a} cost {full_eq} dollars. {then} the coupon of {coupon} dollars is taken"
            " off: {paid_eq} dollars. {so} {name} pays {paid} dollars.",
        ),
    ),
    Template(
        name="sell_profit",
        numbers="made 3-9, price 6-12, cost 10-40",
        steps="income = made * price; profit = income - cost",
        prompts=(
            "{name} sells {made} {a} for {price} dollars each. The materials cost {cost} dollars. How big"
            " is the profit?",
            "To make {made} {a}, {name} spends {cost} dollars. {He} sells each {a1} for {price} dollars at"
            " the {shop}. How much does {he} earn after the costs?",
        ),
        responses=(
            "The {made} {a} bring in {income_eq} dollars. The materials cost {cost} dollars, and the"
            " profit is {profit_eq} dollars. {so} {name} earns {profit} dollars.",
            "{first} the income from {made} {a} is {income_eq} dollars. {then} take away the {cost}"
            " dollars of costs: {profit_eq} dollars remain as profit.",
        ),
    ),
    Template(
        name="split_bill",
        numbers="friends 2-9, share 3-12, drinks 10-20",
        given="whole = friends * share; food = whole - drinks",
        steps="bill = food + drinks; each = bill / friends",
        prompts=(
            "{friends} friends share a bill. The food costs {food} dollars and the drinks cost {drinks}"
            " dollars. How much does each friend pay?",
            "{name} and {his} friends, {friends} people in all, pay {food} dollars for food and {drinks}"
            " dollars for drinks and split the bill equally. How many dollars does each one pay?",
        ),
        responses=(
            "{first} the whole bill is {bill_eq} dollars. {then} the {friends} people share it equally:"
            " {each_eq} dollars. {so} each one pays {each} dollars.",
            "Food and drinks together cost {bill_eq} dollars. Shared by {friends} people, that is"
            " {each_eq} dollars for each of them.",
        ),
    ),
)
