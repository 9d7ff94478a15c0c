"""Bare arithmetic without a story."""

from __future__ import annotations

from engine.training.corpus.math_template import Template

BARE: tuple[Template, ...] = (
    Template(
        name="sum",
        numbers="one 2-99, two 2-99",
        steps="total = one + two",
        prompts=(
            "What is {one} + {two}?",
            "Add {one} and {two}.",
            "Find the sum of {one} and {two}.",
            "Calculate {one} + {two}.",
        ),
        responses=(
            "To find the sum of {one} and {two}, add the tens and the ones: {total_eq}. {so} the sum is"
            " {total}.",
            "Adding {two} to {one} gives {total_eq}. {so} the sum of the two numbers {one} and {two} is"
            " {total}.",
        ),
    ),
    Template(
        name="difference",
        numbers="one 11-99, two 2-90",
        steps="rest = one - two",
        prompts=(
            "What is {one} - {two}?",
            "Subtract {two} from {one}.",
            "Find the difference of {one} and {two}.",
            "Calculate {one} - {two}.",
        ),
        responses=(
            "To take {two} away from {one}, go step by step: {rest_eq}. {so} the difference is {rest}.",
            "Taking {two} from {one} leaves {rest_eq}. {so} the difference of {one} and {two} is {rest}.",
        ),
    ),
    Template(
        name="product",
        numbers="one 2-9, two 2-44",
        steps="product = one * two",
        prompts=(
            "What is {one} * {two}?",
            "Multiply {one} by {two}.",
            "Find the product of {one} and {two}.",
            "Calculate {one} times {two}.",
        ),
        responses=(
            "To multiply {one} by {two}, work it out: {product_eq}. {so} the product is {product}.",
            "The product of {one} and {two} is {product_eq}. {so} {one} times {two} is {product}.",
        ),
    ),
    Template(
        name="quotient",
        numbers="small 2-12, answer 2-12",
        given="whole = small * answer",
        steps="quotient = whole / small",
        prompts=(
            "What is {whole} / {small}?",
            "Divide {whole} by {small}.",
            "How many times does {small} go into {whole}?",
        ),
        responses=(
            "To divide {whole} by {small}, find how often {small} fits into {whole}: {quotient_eq}. {so}"
            " the result is {quotient}.",
            "Dividing {whole} into parts of {small} gives {quotient_eq}. {so} {small} fits into {whole}"
            " exactly {quotient} times.",
        ),
    ),
    Template(
        name="three_sum",
        numbers="one 2-99, two 2-99, three 2-99",
        steps="both = one + two; total = both + three",
        prompts=(
            "What is {one} + {two} + {three}?",
            "Add the three numbers {one}, {two} and {three}.",
            "Find the sum of {one}, {two} and {three}.",
        ),
        responses=(
            "{first} add {one} and {two}: {both_eq}. {then} add {three}: {total_eq}. {so} the sum is"
            " {total}.",
            "The first two numbers make {both_eq}. With the third number, the sum is {total_eq}.",
        ),
    ),
    Template(
        name="product_plus",
        numbers="one 2-9, two 2-12, three 2-99",
        steps="product = one * two; total = product + three",
        prompts=(
            "What is {one} * {two} + {three}?",
            "Multiply {one} by {two} and add {three}.",
            "Work out {one} times {two}, plus {three}.",
        ),
        responses=(
            "{first} multiply: {product_eq}. {then} add {three}: {total_eq}. {so} the result is {total}.",
            "The product comes before the sum: {product_eq}. Adding {three} gives {total_eq}.",
        ),
    ),
    Template(
        name="product_minus",
        numbers="one 2-9, two 2-12, three 2-60",
        steps="product = one * two; rest = product - three",
        prompts=(
            "What is {one} * {two} - {three}?",
            "Multiply {one} by {two} and subtract {three}.",
            "Work out {one} times {two}, minus {three}.",
        ),
        responses=(
            "{first} multiply: {product_eq}. {then} take away {three}: {rest_eq}. {so} the result is"
            " {rest}.",
            "The product comes before the difference: {product_eq}. Taking away {three} gives {rest_eq}.",
        ),
    ),
    Template(
        name="unknown_number",
        numbers="one 11-99, two 2-90, times 2-4",
        steps="number = one - two; product = times * number",
        prompts=(
            "I think of a number. With {two} added to it, the sum is {one}. What is {times} times my"
            " number?",
            "{name} adds {two} to a secret number and gets {one}. What is {times} times the secret number?",
        ),
        responses=(
            "The number is the sum {one} without {two}: {number_eq}. Taken {times} times, this is"
            " {product_eq}.",
            "{first} undo the addition of {two}: {number_eq}. {then} multiply by {times}: {product_eq}."
            " {so} the answer is {product}.",
        ),
    ),
)
