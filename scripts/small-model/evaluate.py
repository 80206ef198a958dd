"""Lets a model work on tasks as the math agent does, in one process, and says how often it was right."""

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

import prompts
from conversations import Message, call
from faults import HARD
from problems import Problem, evaluate, is_close, make_problem
from tokenizer import END_OF_TURN
from train import mixed_precision

ROUNDS = 4
NEW_TOKENS = 160
TOGETHER = 512
CALL = re.compile(r"<tool_call>(.*?)</tool_call>|<tool_call>(.*)", re.DOTALL)
ANSWER = re.compile(r"###\s*(.+?)(\s*###|\n?\Z)")

# Prompts to answers.
Ask = Callable[[list[list[Message]]], list[str]]


@dataclass
class Episode:
    problem: Problem
    messages: list[Message]
    expressions: list[str] = field(default_factory=list)
    final: str = ""

    @property
    def reward(self) -> float:
        answer = answer_of(self.final)
        return float(answer is not None and is_close(answer, self.problem.answer))


@dataclass(frozen=True)
class Scores:
    """Parts of all episodes, from 0 to 1."""

    reward: float
    # Of the templates in which a fault is the likeliest course.
    reward_if_hard: float
    called: float
    right_expression: float
    marked: float


def validation_problems(count: int, seed: int = 10**9) -> list[Problem]:
    generator = random.Random(seed)
    return [make_problem(generator, "validation") for _ in range(count)]


def play(problems: list[Problem], ask: Ask) -> list[Episode]:
    """All episodes at once, round by round."""
    episodes = [Episode(problem, opening(problem)) for problem in problems]
    playing = episodes
    for _ in range(ROUNDS):
        if not playing:
            break
        answers = ask([episode.messages for episode in playing])
        playing = [episode for episode, text in zip(playing, answers, strict=True) if goes_on(episode, text)]
    return episodes


def opening(problem: Problem) -> list[Message]:
    return [{"role": "system", "content": prompts.SYSTEM}, {"role": "user", "content": problem.question}]


def goes_on(episode: Episode, text: str) -> bool:
    """Takes an answer in: a call of the calculator is carried out, anything else is the final answer."""
    expression = called_expression(text)
    if expression is None:
        episode.final = text
        return False
    episode.expressions.append(expression)
    result = {"role": "tool", "tool_call_id": "c0", "content": calculate(expression)}
    episode.messages += [call(expression), result]
    return True


def called_expression(text: str) -> str | None:
    found = CALL.search(text)
    if found is None:
        return None
    try:
        called = json.loads(found[1] or found[2])
        expression = called["arguments"]["expression"] if called["name"] == "calculate" else None
    except (ValueError, TypeError, KeyError):
        return None
    return expression if isinstance(expression, str) else None


def calculate(expression: str) -> str:
    try:
        return evaluate(expression)
    except (ArithmeticError, ValueError, SyntaxError, RecursionError) as error:
        return f"Error executing tool calculate: {error}"


def answer_of(text: str) -> str | None:
    found = ANSWER.search(text)
    return found[1] if found else None


def score(episodes: list[Episode]) -> Scores:
    return Scores(
        reward=part(episodes, lambda episode: episode.reward),
        reward_if_hard=part(
            [episode for episode in episodes if episode.problem.template in HARD], lambda episode: episode.reward
        ),
        called=part(episodes, lambda episode: episode.expressions),
        right_expression=part(episodes, has_right_expression),
        marked=part(episodes, lambda episode: answer_of(episode.final)),
    )


def part(episodes: list[Episode], holds: Callable[[Episode], object]) -> float:
    return round(sum(bool(holds(episode)) for episode in episodes) / max(1, len(episodes)), 4)


def has_right_expression(episode: Episode) -> bool:
    return any(is_close(calculate(expression), episode.problem.answer) for expression in episode.expressions)


@dataclass(frozen=True)
class Sampler:
    """Answers of a model; greedy at temperature 0."""

    model: Qwen3ForCausalLM
    tokenizer: PreTrainedTokenizerFast
    temperature: float

    def __call__(self, conversations: list[list[Message]]) -> list[str]:
        prompts_ids = [self.prompt_ids(messages) for messages in conversations]
        answers = [""] * len(prompts_ids)
        for indices in similar_lengths(prompts_ids):
            texts = self.answer([prompts_ids[index] for index in indices])
            for index, text in zip(indices, texts, strict=True):
                answers[index] = text
        return answers

    def prompt_ids(self, messages: list[Message]) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            messages, tools=prompts.tools(), add_generation_prompt=True, tokenize=False
        )
        return self.tokenizer.encode(text, add_special_tokens=False)

    @torch.inference_mode()
    def answer(self, prompts_ids: list[list[int]]) -> list[str]:
        width = max(map(len, prompts_ids))
        padding = self.tokenizer.pad_token_id
        ids = torch.tensor([[padding] * (width - len(prompt)) + prompt for prompt in prompts_ids])
        seen = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts_ids])
        chosen = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        with mixed_precision(self.model.device):
            made = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=seen.to(self.model.device),
                max_new_tokens=NEW_TOKENS,
                eos_token_id=self.tokenizer.convert_tokens_to_ids(END_OF_TURN),
                pad_token_id=padding,
                **(chosen if self.temperature > 0 else {"do_sample": False}),
            )
        return self.tokenizer.batch_decode(made[:, width:], skip_special_tokens=True)


def similar_lengths(prompts_ids: list[list[int]]) -> Iterator[list[int]]:
    order = sorted(range(len(prompts_ids)), key=lambda index: len(prompts_ids[index]))
    for start in range(0, len(order), TOGETHER):
        yield order[start : start + TOGETHER]


def evaluate_model(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, count: int, temperature: float, seed: int = 0
) -> Scores:
    torch.manual_seed(seed)
    return score(play(validation_problems(count), Sampler(model, tokenizer, temperature)))
