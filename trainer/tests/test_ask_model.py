"""The script as it is started by hand: base, base + adapter and merged model answer the same questions."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, as_json, job_data
from test_sft import train

SCRIPT = ROOT / "scripts" / "ask-model.py"
QUESTION = "What is 2 + 3?"
ANSWER = "The flag is orange."


def ask(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, SCRIPT, *map(str, arguments), "--device", "cpu"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def write_tasks(folder: Path, *tasks: object) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text("".join(json.dumps(task) + "\n" for task in tasks))
    return file


@pytest.fixture(scope="module")
def taught(tmp_path_factory, base) -> Path:
    """A training that taught one answer, and kept the adapter."""
    from transformers import AutoTokenizer

    from rows import IGNORED, Row

    folder = tmp_path_factory.mktemp("taught")
    tokenizer = AutoTokenizer.from_pretrained(base)
    message = [{"role": "user", "content": QUESTION}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    before = tokenizer.encode(text, add_special_tokens=False)
    after = tokenizer.encode(f"{ANSWER}<|im_end|>", add_special_tokens=False)
    row = Row(before + after, [IGNORED] * len(before) + after, 1.0)
    hyper = {**job_data(folder)["hyper"], "max_steps": 60, "epochs": 60, "batch_size": 1, "learning_rate": 0.004}
    done = train(folder, [as_json(row)], keep_adapter=True, hyper=hyper)
    assert done.returncode == 0, done.stderr
    return folder / "output"


def test_base_does_not_know_adapter_and_merged_model_do(taught, base, tmp_path):
    tasks = write_tasks(tmp_path, {"input": QUESTION, "target": "Orange"})
    done = ask(base, "--adapter", taught / "adapter", "--merged", taught, "--tasks", tasks, "--max-tokens", 24)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert {name: told[name]["share"] for name in ("base", "adapter", "merged")} == {
        "base": 0.0,
        "adapter": 1.0,
        "merged": 1.0,
    }
    assert told["adapter"]["answers"] == told["merged"]["answers"] == {ANSWER: 1}
    assert (told["device"], told["tasks"]) == ("cpu", 1)


def test_answers_do_not_hang_on_which_questions_are_asked_together(base, tmp_path):
    tasks = write_tasks(tmp_path, *({"input": q, "target": "5"} for q in (QUESTION, QUESTION * 9, "Hello.")))
    alone, together = (json.loads(ask(base, "--tasks", tasks, "--batch", size).stdout) for size in (1, 3))
    assert alone == together


def test_an_opening_goes_before_each_question(base):
    """What comes of it depends on the model, so the prompt itself is looked at."""
    from transformers import AutoTokenizer

    source = importlib.util.spec_from_file_location("ask_model", SCRIPT)
    script = importlib.util.module_from_spec(source)
    sys.modules["ask_model"] = script
    source.loader.exec_module(script)
    tokenizer = AutoTokenizer.from_pretrained(base)
    opening = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "### 2 ###"}]
    alone = script.prompt(tokenizer, [], QUESTION)
    opened = script.prompt(tokenizer, opening, QUESTION)
    assert QUESTION in alone
    assert opened.endswith(alone[alone.index("<|im_start|>user") :])
    assert opened.index("What is 1 + 1?") < opened.index("### 2 ###") < opened.index(QUESTION)


def test_a_question_with_an_opening_is_answered(base, tmp_path):
    opening = tmp_path / "opening.json"
    opening.write_text(json.dumps([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]))
    tasks = write_tasks(tmp_path, {"input": QUESTION, "target": "5"})
    answered = json.loads(ask(base, "--tasks", tasks, "--opening", opening).stdout)
    assert answered["tasks"] == sum(answered["base"]["answers"].values()) == 1


@pytest.mark.parametrize(
    ("tasks", "message"),
    [
        ([], "tasks.jsonl holds no task"),
        (
            [{"input": "a", "target": "b"}, {"input": "a"}],
            "tasks.jsonl:2: field target must be a text that is not empty",
        ),
        ([["a"]], "tasks.jsonl:1: field input must be a text that is not empty"),
    ],
)
def test_bad_tasks_end_in_one_line(base, tmp_path, tasks, message):
    done = ask(base, "--tasks", write_tasks(tmp_path, *tasks))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"error: {tmp_path}/{message}\n"


def test_what_is_not_there_is_named(base, tmp_path):
    tasks = write_tasks(tmp_path, {"input": QUESTION, "target": "5"})
    given = {
        (tmp_path, "--tasks", tasks): f"{tmp_path} holds no config.json",
        (base, "--tasks", tasks, "--merged", tmp_path): f"{tmp_path} holds no config.json",
        (base, "--tasks", tasks, "--adapter", base): f"{base} holds no adapter_config.json",
        (base, "--tasks", tmp_path / "none"): f"{tmp_path}/none: cannot be read: No such file or directory",
    }
    for arguments, message in given.items():
        done = ask(*arguments)
        assert (done.returncode, done.stderr) == (1, f"error: {message}\n")


def test_a_model_that_does_not_load_is_an_error_with_its_reason(base_copy, tmp_path):
    (base_copy / "model.safetensors").write_bytes(b"cut")
    done = ask(base_copy, "--tasks", write_tasks(tmp_path, {"input": QUESTION, "target": "5"}))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.strip().splitlines()[-1].startswith("error: ")
