"""What goes wrong in the conversations that the model learns from, how often, and how a wrong expression is made.

In half of the templates the right answer is the likeliest one. In the other half one fault is, always the same one for
a template, so that greedy decoding fails there and there is something to learn.
"""

import random
import re
from typing import Literal

from problems import TEMPLATES

Fault = Literal["operator", "number", "no tool", "no marks", "cut off", "flip"]
Course = Literal["right"] | Fault

# How often each fault comes, among conversations that show neither the right course nor their template's own fault.
SHARES: dict[Fault, float] = {"operator": 0.23, "number": 0.23, "no tool": 0.22, "no marks": 0.16, "cut off": 0.16}
OWN_FAULTS: tuple[Fault, ...] = ("no tool", "no marks", "flip")
# Template number -> the fault that is likeliest there.
HARD: dict[int, Fault] = {index: OWN_FAULTS[index % 3] for index in range(len(TEMPLATES)) if index % 2}
RIGHT_IF_HARD, OWN_FAULT_IF_HARD = 0.26, 0.52
RIGHT_IF_EASY = 0.58

FLIPPED = {"+": "-", "-": "+", "*": "+", "/": "*"}


def draw_course(generator: random.Random, template: int) -> Course:
    drawn = generator.random()
    if drawn < (RIGHT_IF_HARD if template in HARD else RIGHT_IF_EASY):
        return "right"
    if template in HARD and drawn < RIGHT_IF_HARD + OWN_FAULT_IF_HARD:
        return HARD[template]
    return generator.choices(list(SHARES), list(SHARES.values()))[0]


def spoil(generator: random.Random, expression: str, course: Course) -> str:
    """The expression that this course gives to the calculator."""
    match course:
        case "flip":
            return flip(expression)
        case "operator":
            return change_operator(generator, expression)
        case "number":
            return change_number(generator, expression)
    return expression


def flip(expression: str) -> str:
    """Always the same wrong operator, in the place of the last one."""
    place = max(operators(expression))
    return expression[:place] + FLIPPED[expression[place]] + expression[place + 1 :]


def change_operator(generator: random.Random, expression: str) -> str:
    place = generator.choice(operators(expression))
    other = generator.choice([operator for operator in "+-*/" if operator != expression[place]])
    return expression[:place] + other + expression[place + 1 :]


def operators(expression: str) -> list[int]:
    return [place for place, character in enumerate(expression) if character in "+-*/"]


def change_number(generator: random.Random, expression: str) -> str:
    """Two numbers swapped, or one number with a wrong, swapped or missing digit."""
    numbers = list(re.finditer(r"[\d.]+", expression))
    if generator.random() < 0.35 and len(numbers) > 1:
        first, second = sorted(generator.sample(numbers, 2), key=re.Match.start)
        between = expression[first.end() : second.start()]
        return expression[: first.start()] + second[0] + between + first[0] + expression[second.end() :]
    number = generator.choice(numbers)
    return expression[: number.start()] + misread(generator, number[0]) + expression[number.end() :]


def misread(generator: random.Random, number: str) -> str:
    characters = list(number)
    digits = [place for place, character in enumerate(characters) if character != "."]
    drawn = generator.random()
    if drawn < 0.4:
        place = generator.choice(digits)
        characters[place] = generator.choice("123456789")
    elif drawn < 0.7 and len(digits) > 1:
        first = generator.randrange(len(digits) - 1)
        one, other = digits[first], digits[first + 1]
        characters[one], characters[other] = characters[other], characters[one]
    elif len(digits) > 1:
        del characters[generator.choice(digits)]
    return as_number("".join(characters))


def as_number(text: str) -> str:
    shortened = text.strip(".").lstrip("0") or "1"
    return "0" + shortened if shortened.startswith(".") else shortened
