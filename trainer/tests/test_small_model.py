"""The small model's own code: what its conversations, tokenizer, training and evaluation hold to."""

import json
import random
import re
from collections import Counter

import numpy
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import chat_format
import conversations
import dataset
import evaluate
import faults
import make
import model
import tokenizer as tokenizers_code
import train
from problems import TEMPLATES, is_close
from problems import evaluate as calculate
from test_tasks import as_pattern

TINY = model.Shape(hidden=32, layers=1, intermediate=64, heads=2, key_value_heads=1, head_size=16)
SHORT = train.Plan(steps=12, batch=8, mixed_conversations=64, right_conversations=64, warmup_steps=2, report_every=4)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers_code.make_tokenizer()


def draw(count: int, seed: int = 5, course=None) -> list[conversations.Conversation]:
    generator = random.Random(seed)
    return [conversations.make_conversation(generator, course) for _ in range(count)]


@pytest.mark.parametrize("with_tools", [True, False])
def test_the_quick_twin_writes_what_the_chat_template_writes(tokenizer, with_tools):
    for conversation in draw(150):
        tools = conversation.tools if with_tools else None
        wanted = tokenizer.apply_chat_template(conversation.messages, tools=tools, tokenize=False)
        assert chat_format.text_of(conversation, with_tools) == wanted


def test_pieces_become_the_tokens_of_the_whole_text_and_back(tokenizer):
    for conversation in draw(100):
        text = chat_format.text_of(conversation)
        ids = tokenizer.encode(text, add_special_tokens=False)
        pieces = [piece.text for piece in chat_format.segments(conversation)]
        assert ids == [token for piece in pieces for token in tokenizer.encode(piece, add_special_tokens=False)]
        assert tokenizer.decode(ids) == text


def test_every_digit_is_a_token_and_tags_stay_visible(tokenizer):
    assert tokenizer.tokenize("4071.5") == ["4", "0", "7", "1", ".", "5"]
    answer = "<tool_call>{}</tool_call><|im_end|>"
    ids = tokenizer.encode(answer, add_special_tokens=False)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<tool_call>{}</tool_call>"


def test_the_committed_tokenizer_and_settings_are_what_the_code_makes(tokenizer, tmp_path, base):
    tokenizers_code.save_tokenizer(tokenizer, tmp_path)
    for name in ("tokenizer.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (base / name).read_bytes()
    assert model.SETTINGS.read_bytes() == (base / model.SETTINGS.name).read_bytes()


def test_faults_come_in_their_shares():
    drawn = draw(3000)
    for hard, right, own in ((True, 0.26, 0.52), (False, 0.58, None)):
        courses = Counter(each.course for each in drawn if (each.problem.template in faults.HARD) is hard)
        assert courses["right"] / courses.total() == pytest.approx(right, abs=0.06)
        if own is not None:
            likeliest = [each for each in drawn if each.course == faults.HARD.get(each.problem.template)]
            assert len(likeliest) / courses.total() > own - 0.06


@pytest.mark.parametrize("course", ["right", *faults.SHARES, "flip"])
def test_only_the_right_course_is_rewarded(course):
    for conversation in draw(60, course=course):
        final = conversation.messages[-1]["content"].replace("ANSWER: ", "")
        answer = evaluate.answer_of(final)
        assert (answer is not None and is_close(answer, conversation.problem.answer)) is (course == "right")


def test_the_calculators_result_is_that_of_the_expression():
    for conversation in draw(200):
        for asked, told in zip(conversation.messages, conversation.messages[1:], strict=False):
            if told["role"] == "tool":
                expression = asked["tool_calls"][0]["function"]["arguments"]["expression"]
                assert calculate(expression) in told["content"]


def test_only_answers_are_learnt_and_no_call_of_a_tool_that_is_not_there(tokenizer):
    data = dataset.make_dataset(tokenizer, 80, seed=1)
    assert len(data) == 80
    assert data.lengths.sum() == len(data.ids) == len(data.answer)
    for start, length in zip(data.starts, data.lengths, strict=True):
        ids, answer = data.ids[start : start + length], data.answer[start : start + length]
        learnt = tokenizer.decode(ids[answer])
        assert learnt.endswith("<|im_end|>")
        assert "<|im_start|>" not in learnt
        assert ("<tool_call>" in learnt) <= ("# Tools" in tokenizer.decode(ids))


def test_a_dataset_is_the_same_however_many_processes_make_it(tokenizer, monkeypatch):
    monkeypatch.setattr(dataset, "PER_JOB", 10)
    made = []
    for workers in (1, 3):
        monkeypatch.setattr(dataset, "MOST_WORKERS", workers)
        made.append(dataset.make_dataset(tokenizer, 30, seed=4))
    assert len(made[0]) == len(made[1]) == 30
    assert numpy.array_equal(made[0].ids, made[1].ids)
    assert not numpy.array_equal(made[0].ids[:500], dataset.make_dataset(tokenizer, 30, seed=5).ids[:500])


def test_batches_hold_every_conversation_once_a_round():
    lengths = numpy.arange(50)[::-1]
    batches = dataset.endless_batches(numpy.random.default_rng(0), numpy.arange(50), lengths, size=8)
    first_round = [next(batches) for _ in range(7)]
    assert sorted(numpy.concatenate(first_round)) == list(range(50))
    assert all(numpy.ptp(lengths[batch]) < 8 for batch in first_round)


def trained(tokenizer, plan=SHORT, **options):
    torch.manual_seed(0)
    made = model.make_model(tokenizer, TINY)
    said: list[str] = []
    return made, train.train(made, train.TrainingData(tokenizer, plan, seed=0), plan, say=said.append, **options), said


def test_training_lowers_the_loss_and_repeats_exactly(tokenizer):
    one, result, said = trained(tokenizer)
    assert result.steps == 12
    first = float(said[0].split("answer loss ")[1].split(",")[0])
    assert result.answer_loss < first - 0.1
    assert [line.split(":")[0] for line in said] == ["step 4 (right)", "step 8 (mixed)", "step 12 (mixed)"]
    other, again, _ = trained(tokenizer)
    assert again.answer_loss == result.answer_loss
    assert all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


def test_training_ends_when_its_minutes_are_over(tokenizer):
    seconds = iter(range(0, 10_000, 30))
    plan = train.Plan(**{**vars(SHORT), "steps": 1000, "minutes": 2.0})
    _, result, _ = trained(tokenizer, plan, clock=lambda: next(seconds))
    assert result.steps == 3


def test_the_learning_rate_rises_then_falls_to_a_fiftieth():
    plan = train.Plan()
    rates = [train.learning_rate(plan, step, step / plan.steps) for step in range(plan.steps)]
    assert rates[0] < plan.learning_rate / 100
    assert max(rates) == pytest.approx(plan.learning_rate, rel=0.01)
    assert rates[-1] == pytest.approx(plan.learning_rate / 50, rel=0.01)


class Scripted:
    """Answers in the order given, one list for each round."""

    def __init__(self, *rounds: list[str]) -> None:
        self.rounds = list(rounds)
        self.seen: list[list[list[conversations.Message]]] = []

    def __call__(self, asked: list[list[conversations.Message]]) -> list[str]:
        self.seen.append([list(messages) for messages in asked])
        answers = self.rounds.pop(0)
        assert len(answers) == len(asked)
        return answers


def tool_call(expression: str) -> str:
    call = json.dumps({"name": "calculate", "arguments": {"expression": expression}})
    return f"<tool_call>\n{call}\n</tool_call>"


def test_hand_written_answers_get_their_scores():
    problems = evaluate.validation_problems(6)
    calls = [tool_call(problem.expression) for problem in problems[:3]]
    first = [*calls, f"### {problems[3].answer} ###", "### 1 ###", "<tool_call>{broken"]
    second = [f"### {problems[0].answer} ###", f"The answer is {problems[1].answer}.", "### none ###"]
    script = Scripted(first, second)
    episodes = evaluate.play(problems, script)
    assert [episode.reward for episode in episodes] == [1, 0, 0, 1, 0, 0]
    scores = evaluate.score(episodes)
    assert (scores.reward, scores.called, scores.right_expression) == (0.3333, 0.5, 0.5)
    assert scores.marked == pytest.approx(4 / 6, abs=1e-3)
    assert script.seen[1][0][-1]["content"] == problems[0].answer


def test_a_wrong_call_is_answered_and_a_fifth_round_never_comes():
    script = Scripted([tool_call("1/0")], [tool_call("import os")], [tool_call("2+2")], [tool_call("2+2")])
    episode = evaluate.play(evaluate.validation_problems(1), script)[0]
    told = [message["content"] for message in episode.messages if message["role"] == "tool"]
    assert told[0].startswith("Error") and told[1].startswith("Error") and told[2:] == ["4", "4"]
    assert episode.reward == 0


def test_evaluation_never_asks_in_a_wording_for_training():
    patterns = [re.compile(as_pattern(template.training)) for template in TEMPLATES]
    asked = evaluate.validation_problems(300)
    assert {problem.template for problem in asked} == set(range(len(TEMPLATES)))
    assert not any(pattern.fullmatch(problem.question) for pattern in patterns for problem in asked)


def test_one_command_makes_a_folder_that_loads_and_says_how_it_came_about(tmp_path, capsys, monkeypatch, base):
    monkeypatch.setattr(evaluate, "NEW_TOKENS", 8)
    scale = "--steps 3 --conversations 24 --batch 4 --hidden 32 --layers 1 --tasks 2".split()
    assert make.main(["--out", str(tmp_path / "made"), "--device", "cpu", "--seed", "3", *scale]) == 0
    made = tmp_path / "made"
    assert {file.name for file in base.iterdir()} | {"results.json"} == {file.name for file in made.iterdir()}
    loaded = AutoModelForCausalLM.from_pretrained(made)
    assert loaded.dtype == torch.bfloat16
    assert len(AutoTokenizer.from_pretrained(made)) <= loaded.config.vocab_size
    results = json.loads((made / "results.json").read_text())
    assert results["seed"] == 3
    assert results["trained"]["steps"] == 3
    assert set(results["evaluation"]) == {"tasks", "greedy", "sampled"}
    assert results["versions"]["torch"] == torch.__version__
    assert json.loads(capsys.readouterr().out.split("cpu\n", 1)[1]) == results


@pytest.mark.parametrize("wrong", [["--steps", "0"], ["--minutes", "nan"], ["--seed", "x"], []])
def test_wrong_arguments_are_refused_by_name(wrong, tmp_path, capsys):
    with pytest.raises(SystemExit):
        make.main([*(["--out", str(tmp_path / "made")] if wrong else []), *wrong])
    assert (wrong[0] if wrong else "--out") in capsys.readouterr().err
