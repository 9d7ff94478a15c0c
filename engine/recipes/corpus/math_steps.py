"""Arithmetic spelled out: one fixed written form for each pair of operands, easy to learn exactly."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST = 400  # results stay below this


@dataclass(frozen=True)
class Equation:
    """A worked equation, for example ``47 + 38 = 40 + 30 + 7 + 8 = 70 + 15 = 85``, and its value."""

    text: str
    value: int


def add(left: int, right: int) -> Equation:
    """The sum; tens and ones are added apart when both operands have both."""
    total = left + right
    left_ones, right_ones = left % 10, right % 10
    if min(left, right) < 10 or not left_ones or not right_ones:
        return Equation(f"{left} + {right} = {total}", total)
    left_tens, right_tens = left - left_ones, right - right_ones
    parts = f"{left_tens} + {right_tens} + {left_ones} + {right_ones}"
    pair = f"{left_tens + right_tens} + {left_ones + right_ones}"
    return Equation(f"{left} + {right} = {parts} = {pair} = {total}", total)


def subtract(left: int, right: int) -> Equation | None:
    """The difference, the tens taken off before the ones; None where it would be negative."""
    if right > left:
        return None
    ones = right % 10
    tens = right - ones
    if not tens or not ones:
        return Equation(f"{left} - {right} = {left - right}", left - right)
    middle = left - tens
    text = f"{left} - {right} = {left} - {tens} - {ones} = {middle} - {ones} = {left - right}"
    return Equation(text, left - right)


def multiply(left: int, right: int) -> Equation | None:
    """The product with a one-digit number; above 12 the other is split into tens and ones; else None."""
    small, large = min(left, right), max(left, right)
    if small > 9 or large > 99:
        return None
    product = left * right
    ones = large % 10
    if large <= 12 or not ones:
        return Equation(f"{left} * {right} = {product}", product)
    tens = large - ones
    shares = [f"{small} * {part}" if left == small else f"{part} * {small}" for part in (tens, ones)]
    parts = " + ".join(shares)
    return Equation(f"{left} * {right} = {parts} = {small * tens} + {small * ones} = {product}", product)


def divide(left: int, right: int) -> Equation | None:
    """The quotient inside the multiplication tables up to 12; None where it is not exact or outside them."""
    if not 0 < right <= 12 or left % right or left // right > 12:
        return None
    return Equation(f"{left} / {right} = {left // right}", left // right)


def work_out(left: int, sign: str, right: int) -> Equation | None:
    """The equation of ``left sign right``, or None where it is not one of the easy ones below ``LARGEST``."""
    equation = {"+": add, "-": subtract, "*": multiply, "/": divide}[sign](left, right)
    return equation if equation is not None and equation.value < LARGEST else None
