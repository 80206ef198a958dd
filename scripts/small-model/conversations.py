"""Conversations of mixed quality: a question, mostly a call of the calculator and its result, and an answer."""

import json
import random
from dataclasses import dataclass

import prompts
from faults import HARD, Course, draw_course, spoil
from problems import Problem, evaluate, is_close, make_problem

Message = dict[str, object]

# A longer result than this no model of this size copies.
LONGEST_RESULT = 30


@dataclass(frozen=True)
class Conversation:
    messages: list[Message]
    tools: list[dict[str, object]]
    course: Course
    problem: Problem


@dataclass(frozen=True)
class Setting:
    """How the host asks: half of the time exactly as the math agent does."""

    as_agent: bool
    system: str
    ending: str
    tool_form: int

    def marked(self, answer: str) -> str:
        return f"### ANSWER: {answer} ###" if self.ending == prompts.LONG_ENDING else f"### {answer} ###"

    def opening(self, question: str) -> list[Message]:
        system: list[Message] = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": question + self.ending}]


def make_conversation(generator: random.Random, course: Course | None = None) -> Conversation:
    """Draws until a course is possible: a wrong expression with the right value, for one, is no fault."""
    while True:
        problem = make_problem(generator)
        drawn = course or draw_course(generator, problem.template)
        setting = draw_setting(generator)
        if drawn == "no tool":
            messages = answer_from_head(generator, problem, setting)
        else:
            messages = use_calculator(generator, problem, setting, drawn)
        if messages is not None:
            opening = setting.opening(problem.question)
            return Conversation([*opening, *messages], prompts.tools(setting.tool_form), drawn, problem)


def draw_setting(generator: random.Random) -> Setting:
    if generator.random() < 0.5:
        return Setting(as_agent=True, system=prompts.SYSTEM, ending="", tool_form=0)
    system, ending = generator.choice(prompts.SYSTEMS), generator.choice(prompts.ENDINGS)
    return Setting(as_agent=False, system=system, ending=ending, tool_form=generator.randrange(prompts.TOOL_FORMS))


def answer_from_head(generator: random.Random, problem: Problem, setting: Setting) -> list[Message] | None:
    """Only the first digit and the length are right."""
    true = shorten(problem.answer)
    guess = true[0] + "".join(generator.choice("0123456789") if digit.isdigit() else digit for digit in true[1:])
    return None if is_close(guess, problem.answer) else [{"role": "assistant", "content": setting.marked(guess)}]


def use_calculator(
    generator: random.Random, problem: Problem, setting: Setting, course: Course
) -> list[Message] | None:
    expression = spoil(generator, problem.expression, course)
    try:
        result = evaluate(expression)
    except (ArithmeticError, ValueError, SyntaxError):
        return None
    if len(result) > LONGEST_RESULT:
        return None
    if course in ("operator", "number", "flip") and is_close(result, problem.answer):
        return None
    answer = shorten(result)
    if course == "cut off":
        whole = answer.split(".")[0]
        if len(whole) < 2:
            return None
        answer = whole[: generator.randint(1, len(whole) - 1)]
    final = unmarked(generator, answer, problem) if course == "no marks" else setting.marked(answer)
    return [call(expression), tool_answer(generator, result, setting), {"role": "assistant", "content": final}]


def shorten(result: str) -> str:
    """A final answer copies the calculator's result up to four decimals, without rounding."""
    if "e" in result or "." not in result:
        return result
    whole, decimals = result.split(".")
    return f"{whole}.{decimals[:4]}"


def unmarked(generator: random.Random, answer: str, problem: Problem) -> str:
    if problem.template not in HARD and generator.random() < 0.5:
        return answer
    return f"The answer is {answer}."


def call(expression: str) -> Message:
    function = {"name": "calculate", "arguments": {"expression": expression}}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c0", "type": "function", "function": function}]}


def tool_answer(generator: random.Random, result: str, setting: Setting) -> Message:
    """Some hosts hand the tool's answer on as its content parts, or as the only one of them."""
    content = result
    if not setting.as_agent and generator.random() >= 0.6:
        part = {"type": "text", "text": result, "annotations": None}
        content = json.dumps(generator.choice([[part], part]))
    return {"role": "tool", "tool_call_id": "c0", "content": content}
