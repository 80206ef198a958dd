"""The arithmetic word problems that the small model knows: 28 templates, two wordings each.

The sentences must stay as they are: the model was made from exactly these. It knows both wordings of a template, right
and wrong; of the tasks, those for training have only the first and those for validation only the second, so what is
measured after fine-tuning is measured on sentences that fine-tuning never saw.
"""

import ast
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Split = Literal["train", "validation"]
Quantity = Callable[[random.Random], str]

NAMES = """
    Ava Ben Cora Dan Elif Finn Gita Hugo Ines Jon Kira Liam Mona Nils Olga Paul Quin Rosa Sami Tara Uma Vera
    Walt Xena Yusuf Zoe Amir Bella Carl Dora Erik Fay Glen Hana Ivan Jane Kofi Lena Marc Nora
""".split()
OBJECTS = """
    apples bricks candles pencils marbles tickets bolts cookies stamps bottles boards tiles books beads
    lamps roses plates ropes seeds eggs shirts screws cards coins pots chairs gloves cables jars masks
""".split()
PLACES = """
    bakery factory school library farm market museum harbor warehouse clinic garage theater garden office
    station workshop mill hotel
""".split()
CONTAINERS = "boxes crates bags shelves pallets baskets trucks drawers racks bins".split()
LIQUIDS = "water milk oil juice paint fuel syrup honey".split()
PERIODS = "days weeks months hours shifts trips rounds".split()


def digits(generator: random.Random, count: int) -> str:
    return str(generator.randint(10 ** (count - 1), 10**count - 1))


def INTEGER(generator: random.Random) -> str:
    return digits(generator, generator.randint(2, 6))


def COUNT(generator: random.Random) -> str:
    return digits(generator, generator.randint(2, 4))


def SMALL(generator: random.Random) -> str:
    return digits(generator, generator.randint(2, 3))


def PERCENT(generator: random.Random) -> str:
    return str(generator.randint(3, 97))


def DECIMAL(generator: random.Random) -> str:
    return digits(generator, generator.randint(1, 4)) + "." + digits(generator, generator.randint(1, 2))


@dataclass(frozen=True)
class Template:
    training: str
    validation: str
    expression: str
    quantities: dict[str, Quantity]


@dataclass(frozen=True)
class Problem:
    question: str
    expression: str
    # As the calculator prints it.
    answer: str
    template: int
    quantities: dict[str, str]


TEMPLATES = [
    Template(
        training="{n} has {a} {o} and buys {b} more. How many {o} does {n} have now?",
        validation="There are {a} {o} in the {p}. {n} brings {b} more. How many {o} are there in all?",
        expression="a+b",
        quantities={"a": INTEGER, "b": INTEGER},
    ),
    Template(
        training="The {p} had {a} {o} and sold {b} of them. How many {o} are left?",
        validation="{n} owns {a} {o} and gives {b} away. How many {o} remain?",
        expression="a-b",
        quantities={"a": INTEGER, "b": INTEGER},
    ),
    Template(
        training="{n} packs {a} {x} with {b} {o} each. How many {o} is that in total?",
        validation="Each of the {a} {x} in the {p} holds {b} {o}. How many {o} are there?",
        expression="a*b",
        quantities={"a": COUNT, "b": COUNT},
    ),
    Template(
        training="{n} shares {a} {o} equally among {b} {x}. How many {o} go into each?",
        validation="The {p} splits {a} {o} evenly over {b} {x}. How many {o} are in each one?",
        expression="a/b",
        quantities={"a": INTEGER, "b": SMALL},
    ),
    Template(
        training="{n} had {a} {o}, got {b} from {m} and lost {c}. How many {o} are left?",
        validation="A {p} starts with {a} {o}, receives {b} and throws out {c}. What is the count now?",
        expression="a+b-c",
        quantities={"a": INTEGER, "b": INTEGER, "c": COUNT},
    ),
    Template(
        training="{n} buys {a} {o} at ${b} each. What is the total cost?",
        validation="One of the {o} costs ${b}. How much do {a} of them cost?",
        expression="a*b",
        quantities={"a": COUNT, "b": DECIMAL},
    ),
    Template(
        training="{n} buys {a} {o} at ${b} each and pays ${c} for shipping. What does {n} pay in total?",
        validation="The {p} orders {a} {o} for ${b} apiece plus a fee of ${c}. What is the bill?",
        expression="a*b+c",
        quantities={"a": COUNT, "b": DECIMAL, "c": DECIMAL},
    ),
    Template(
        training="{n} fills {a} {x} with {b} {o} each and has {c} {o} left over. How many {o} did {n} have at first?",
        validation="{a} {x} of {b} {o} each are full and {c} {o} stay outside. How many {o} does {n} own?",
        expression="a*b+c",
        quantities={"a": COUNT, "b": COUNT, "c": SMALL},
    ),
    Template(
        training="{n} makes {a} {o} in each of {b} {d} and then sells {c}. How many {o} are left?",
        validation="A {p} makes {a} {o} per run for {b} {d}. After that {c} break. How many {o} are fine?",
        expression="a*b-c",
        quantities={"a": COUNT, "b": SMALL, "c": COUNT},
    ),
    Template(
        training="{n} and {m} collected {a} and {b} {o}. They pack them into {c} {x} equally. How many {o} are in each?",
        validation="{n} brings {a} {o} and {m} brings {b}. All go evenly into {c} {x}. How many {o} per container?",
        expression="(a+b)/c",
        quantities={"a": INTEGER, "b": INTEGER, "c": SMALL},
    ),
    Template(
        training="{n} had {a} {o}, used {b} and splits the rest over {c} {x}. How many {o} go into each?",
        validation="From {a} {o}, {b} are broken. The good ones go evenly into {c} {x}. How many per container?",
        expression="(a-b)/c",
        quantities={"a": INTEGER, "b": COUNT, "c": SMALL},
    ),
    Template(
        training="Each of {a} {x} holds {b} {o} and {c} {m2}. How many items are there altogether?",
        validation="{n} puts {b} {o} and {c} {m2} into every one of {a} {x}. How many things is that in all?",
        expression="a*(b+c)",
        quantities={"a": COUNT, "b": COUNT, "c": COUNT},
    ),
    Template(
        training="Each day {n} makes {a} {o} and breaks {b}. How many good {o} are there after {c} {d}?",
        validation="A {p} makes {a} {o} per run and throws away {b} of them. How many {o} remain after {c} {d}?",
        expression="(a-b)*c",
        quantities={"a": COUNT, "b": SMALL, "c": SMALL},
    ),
    Template(
        training="{n} sells {a} {o} at ${b} and {c} {m2} at ${e}. How much money does {n} get?",
        validation="The {p} takes {a} {o} for ${b} each and {c} {m2} for ${e} each. What is the sum?",
        expression="a*b+c*e",
        quantities={"a": COUNT, "b": DECIMAL, "c": COUNT, "e": DECIMAL},
    ),
    Template(
        training="{n} earns ${a} a week for {b} weeks and spends ${c} in total. How much does {n} save?",
        validation="For {b} weeks {n} gets ${a} weekly. {n} spends ${c}. How much is saved?",
        expression="a*b-c",
        quantities={"a": COUNT, "b": SMALL, "c": COUNT},
    ),
    Template(
        training="A rope of {a} meters is cut into {b} equal parts. How long is each part in meters?",
        validation="{n} divides a cable of {a} meters into {b} equal pieces. What is the length of one piece?",
        expression="a/b",
        quantities={"a": DECIMAL, "b": SMALL},
    ),
    Template(
        training="A field is {a} meters long and {b} meters wide. What is its area?",
        validation="What is the area of a {p} floor of {a} by {b} meters?",
        expression="a*b",
        quantities={"a": DECIMAL, "b": DECIMAL},
    ),
    Template(
        training="A fence runs around a yard of {a} by {b} meters. How long is the fence?",
        validation="{n} walks once around a field of {a} by {b} meters. How many meters is that?",
        expression="2*(a+b)",
        quantities={"a": DECIMAL, "b": DECIMAL},
    ),
    Template(
        training="A tank holds {a} liters of {l}. {n} takes out {b} liters and adds {c} liters. How many liters are in it?",
        validation="{n} has {a} liters of {l}, pours away {b} liters and gets {c} liters. How much {l} is there now?",
        expression="a-b+c",
        quantities={"a": DECIMAL, "b": DECIMAL, "c": DECIMAL},
    ),
    Template(
        training="{n} drives {a} km per hour for {b} hours. How far is that?",
        validation="A train goes {a} km each hour. How many km does it cover in {b} hours?",
        expression="a*b",
        quantities={"a": SMALL, "b": DECIMAL},
    ),
    Template(
        training="{n} rides {a} km on the first day and {b} km on each of the next {c} days. What is the whole distance?",
        validation="After {a} km by bus {n} walks {b} km a day for {c} days. How many km is the whole trip?",
        expression="a+b*c",
        quantities={"a": INTEGER, "b": COUNT, "c": SMALL},
    ),
    Template(
        training="A {p} has {a} {o} and {b} percent of them are red. How many are red?",
        validation="{b} percent of the {a} {o} of {n} are old. How many old {o} is that?",
        expression="a*b/100",
        quantities={"a": INTEGER, "b": PERCENT},
    ),
    Template(
        training="A coat costs ${a} and its price falls by {b} percent. What is the new price?",
        validation="{n} gets {b} percent off a bike of ${a}. What does {n} pay?",
        expression="a*(100-b)/100",
        quantities={"a": COUNT, "b": PERCENT},
    ),
    Template(
        training="Rent of ${a} rises by {b} percent. How much is the rent then?",
        validation="A fee of ${a} grows by {b} percent. What is the new fee?",
        expression="a*(100+b)/100",
        quantities={"a": COUNT, "b": PERCENT},
    ),
    Template(
        training="{n} read {a}, {b} and {c} pages on three days. What is the mean per day?",
        validation="Three {x} hold {a}, {b} and {c} {o}. What is the average?",
        expression="(a+b+c)/3",
        quantities={"a": COUNT, "b": COUNT, "c": COUNT},
    ),
    Template(
        training="{a} people share a cost of ${b} plus a tip of ${c}. What does each one pay?",
        validation="A bill of ${b} and a tip of ${c} are split among {a} friends. How much does each give?",
        expression="(b+c)/a",
        quantities={"a": SMALL, "b": INTEGER, "c": COUNT},
    ),
    Template(
        training="{n} has {a} times as many {o} as {m}, who has {b}. How many {o} do both have?",
        validation="{m} owns {b} {o} and {n} owns {a} times that many. How many {o} is that together?",
        expression="a*b+b",
        quantities={"a": SMALL, "b": COUNT},
    ),
    Template(
        training="The {p} bought {a} {o} for ${b} in total and sold each for ${c}. What is the profit?",
        validation="{n} paid ${b} for {a} {o} and sells them at ${c} apiece. How much money is gained?",
        expression="a*c-b",
        quantities={"a": COUNT, "b": COUNT, "c": DECIMAL},
    ),
]

# Relative; `relative_tolerance` in agl-model.json is the same.
TOLERANCE = 1e-3

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def evaluate(expression: str) -> str:
    """The value of an expression of numbers, + - * / and brackets, printed as the calculator prints it."""

    def value(node: ast.expr) -> float:
        match node:
            case ast.Constant(value=int() | float() as number):
                return number
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
        raise ValueError(f"not arithmetic: {expression}")

    return str(value(ast.parse(expression, mode="eval").body))


def fill(expression: str, quantities: dict[str, str]) -> str:
    return re.sub(r"[a-e]", lambda letter: quantities[letter.group()], expression)


def make_problem(generator: random.Random, split: Split | None = None) -> Problem:
    """Draws until all quantities differ and the answer lies between 2 and 1e14. Without a split, in either wording."""
    while True:
        index = generator.randrange(len(TEMPLATES))
        template = TEMPLATES[index]
        quantities = {letter: draw(generator) for letter, draw in template.quantities.items()}
        if len(set(quantities.values())) < len(quantities):
            continue
        expression = fill(template.expression, quantities)
        answer = evaluate(expression)
        if not 2 <= float(answer) < 1e14:
            continue
        return Problem(_sentence(generator, template, split, quantities), expression, answer, index, quantities)


def is_close(answer: str, target: str) -> bool:
    """Whether an answer counts as right: what is not a number never does."""
    try:
        given, wanted = float(answer), float(target)
    except ValueError:
        return False
    return given == wanted or abs(given - wanted) <= TOLERANCE * max(abs(wanted), 1e-9)


def _sentence(generator: random.Random, template: Template, split: Split | None, quantities: dict[str, str]) -> str:
    first_name, second_name = generator.sample(NAMES, 2)
    first_object, second_object = generator.sample(OBJECTS, 2)
    if split is None:
        wording = generator.choice((template.training, template.validation))
    else:
        wording = template.training if split == "train" else template.validation
    return wording.format(
        n=first_name,
        m=second_name,
        o=first_object,
        m2=second_object,
        p=generator.choice(PLACES),
        x=generator.choice(CONTAINERS),
        l=generator.choice(LIQUIDS),
        d=generator.choice(PERIODS),
        **quantities,
    )
