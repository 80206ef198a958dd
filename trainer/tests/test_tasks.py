"""The committed tasks: what their maker makes, in GSM-hard's shape, validation in sentences never trained on."""

import json
import random
import re
from pathlib import Path

import pytest

import make_tasks
import problems

SPLITS = ("train", "validation")


def committed(split: str) -> list[dict]:
    return [json.loads(line) for line in (make_tasks.FOLDER / f"{split}.jsonl").read_text().splitlines()]


def test_the_committed_files_are_what_the_script_makes():
    assert make_tasks.main(["--check"]) == 0


def test_a_changed_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(make_tasks, "FOLDER", tmp_path)
    assert make_tasks.main([]) == 0
    (tmp_path / "train.jsonl").write_text("")
    assert make_tasks.main(["--check"]) == 1


@pytest.mark.parametrize("split", SPLITS)
def test_every_code_gives_its_target(split):
    tasks = committed(split)
    assert len(tasks) == 256
    assert len({task["input"] for task in tasks}) == 256
    for task in tasks:
        assert list(task) == ["input", "target", "code"]
        scope: dict = {}
        exec(task["code"], scope)
        assert scope["solution"]() == task["target"]


def test_validation_uses_no_wording_of_training():
    wordings = {split: {wording(task["input"]) for task in committed(split)} for split in SPLITS}
    assert wordings["train"].isdisjoint(wordings["validation"])
    assert len(wordings["train"]) == len(wordings["validation"]) == len(problems.TEMPLATES)


def wording(question: str) -> int:
    """The number of the sentence pattern that the question was made from."""
    patterns = [text for template in problems.TEMPLATES for text in (template.training, template.validation)]
    matching = [index for index, text in enumerate(patterns) if re.fullmatch(as_pattern(text), question)]
    assert len(matching) == 1, question
    return matching[0]


def as_pattern(text: str) -> str:
    return re.sub(r"\\{\w+\\}", r"[\\w.]+", re.escape(text))


def test_answers_are_what_the_calculator_prints():
    problem = problems.make_problem(random.Random(1), "train")
    assert problem.answer == str(eval(problem.expression))
    with pytest.raises(ValueError, match="not arithmetic"):
        problems.evaluate("__import__('os')")


def test_the_module_needs_no_library():
    source = Path(problems.__file__).read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", source, re.MULTILINE))
    assert imported <= {"ast", "operator", "random", "re", "collections", "dataclasses", "typing"}
