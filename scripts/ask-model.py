"""Asks a model, the model with a LoRA adapter, and a merged model the same questions, with plain transformers and PEFT.

    python scripts/ask-model.py MODEL --tasks TASKS.jsonl [--adapter DIR] [--merged DIR] [--opening OPENING.json]

TASKS.jsonl holds one {"input": question, "target": expected text} a line; OPENING.json a list of chat messages that go
before each question. Answers are greedy. Prints one JSON object: of `base`, `adapter` and `merged` the share of answers
that contain the expected text, and the commonest answers. On a GPU where there is one. Exit code 1 and a last line on
stderr that says why when something cannot be read or asked.
"""

import argparse
import gc
import json
import os
import sys
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

COMMONEST = 5


class Refusal(Exception):
    """Something given cannot be used: told in one line."""


@dataclass(frozen=True)
class Task:
    input: str
    target: str


def main(arguments: list[str]) -> int:
    options = read_arguments(arguments)
    try:
        print(json.dumps(ask_all(options), indent=2, ensure_ascii=False), flush=True)
        return 0
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
    except Exception as error:
        traceback.print_exc()
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
    return 1


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Asks base, base + LoRA adapter and merged model the same questions.")
    parser.add_argument("model", type=Path, metavar="MODEL", help="folder of the base model")
    parser.add_argument("--adapter", type=Path, help="folder of a LoRA adapter in PEFT's format")
    parser.add_argument("--merged", type=Path, help="folder of a model that the adapter was merged into")
    parser.add_argument("--tasks", type=Path, required=True, help='JSONL of {"input", "target"}')
    parser.add_argument("--opening", type=Path, help="JSON list of chat messages before each question")
    parser.add_argument("--limit", type=at_least_one, help="only the first tasks")
    parser.add_argument("--max-tokens", type=at_least_one, default=8, help="longest answer (%(default)s)")
    parser.add_argument("--batch", type=at_least_one, default=16, help="questions at once (%(default)s)")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(arguments)


def at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def ask_all(options: argparse.Namespace) -> dict[str, object]:
    tasks = read_tasks(options.tasks)[: options.limit]
    opening = read_opening(options.opening) if options.opening else []
    check_folders(options)

    import torch
    from transformers import AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    device = choose_device(options.device)
    tokenizer = AutoTokenizer.from_pretrained(options.model, local_files_only=True, padding_side="left")
    if tokenizer.chat_template is None:
        raise Refusal(f"{options.model}: its tokenizer has no chat template")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    prompts = [prompt(tokenizer, opening, task.input) for task in tasks]
    asked = {
        "base": (options.model, None),
        "adapter": (options.model, options.adapter) if options.adapter else None,
        "merged": (options.merged, None) if options.merged else None,
    }
    results: dict[str, object] = {"device": device, "tasks": len(tasks)}
    for name, folders in asked.items():
        if folders is None:
            continue
        model = load(*folders, device)
        answers = answer(model, tokenizer, prompts, options.batch, options.max_tokens)
        results[name] = summary(tasks, answers)
        del model
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()
    return results


def read_tasks(file: Path) -> list[Task]:
    tasks = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip():
            continue
        data = parse(line, f"{file}:{number}")
        for name in ("input", "target"):
            if not isinstance(data, dict) or not isinstance(data.get(name), str) or not data[name].strip():
                raise Refusal(f"{file}:{number}: field {name} must be a text that is not empty")
        tasks.append(Task(data["input"], data["target"]))
    if not tasks:
        raise Refusal(f"{file} holds no task")
    return tasks


def read_opening(file: Path) -> list[dict[str, str]]:
    messages = parse(read_text(file), str(file))
    if not isinstance(messages, list):
        raise Refusal(f"{file}: must be a list of chat messages")
    for index, message in enumerate(messages):
        for name in ("role", "content"):
            if not isinstance(message, dict) or not isinstance(message.get(name), str):
                raise Refusal(f"{file}: field [{index}].{name} must be a text")
    return messages


def read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refusal(f"{file}: is not UTF-8 text") from error


def parse(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Refusal(f"{where}: is not JSON: {error}") from error


def check_folders(options: argparse.Namespace) -> None:
    """Before the imports, which take long."""
    wanted = {"config.json": [options.model, options.merged], "adapter_config.json": [options.adapter]}
    for name, folders in wanted.items():
        for folder in folders:
            if folder is not None and not (folder / name).is_file():
                raise Refusal(f"{folder} holds no {name}")


def choose_device(wanted: str) -> str:
    import torch

    if wanted == "cuda" and not torch.cuda.is_available():
        raise Refusal("--device cuda: torch finds no GPU here; give --device cpu")
    return ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted


def prompt(tokenizer, opening: list[dict[str, str]], question: str) -> str:
    messages = [*opening, {"role": "user", "content": question}]
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)


def load(folder: Path, adapter: Path | None, device: str):
    import torch
    from transformers import AutoModelForCausalLM

    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter)
    return model.to(device).eval()


def answer(model, tokenizer, prompts: list[str], batch_size: int, max_tokens: int) -> list[str]:
    import torch

    answers = []
    for start in range(0, len(prompts), batch_size):
        some = prompts[start : start + batch_size]
        batch = tokenizer(some, return_tensors="pt", padding=True, add_special_tokens=False)
        batch = batch.to(model.device)
        with torch.inference_mode():
            made = model.generate(
                **batch, max_new_tokens=max_tokens, do_sample=False, pad_token_id=tokenizer.pad_token_id
            )
        answers += tokenizer.batch_decode(made[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    return answers


def summary(tasks: list[Task], answers: list[str]) -> dict[str, object]:
    right = sum(task.target.lower() in given.lower() for task, given in zip(tasks, answers, strict=True))
    commonest = Counter(given.strip() for given in answers).most_common(COMMONEST)
    return {"share": round(right / len(tasks), 4), "right": right, "answers": dict(commonest)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
