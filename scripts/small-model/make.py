"""Makes the small model from nothing: tokenizer, weights, settings, and what it scores.

    python scripts/small-model/make.py --out DIR [--seed 0] [--minutes 10] [--device auto]

Takes about three minutes on an H200, nearly all of it training. On the CPU it only makes sense at toy scale (see
--help). Needs torch, transformers and tokenizers. With the same seed, libraries and number of steps, tokenizer and
training data are the same to the byte; weights are on the CPU, and on a GPU up to rounding.
"""

import os

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import argparse
import dataclasses
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evaluate import evaluate_model
from model import Shape, make_model, save_model
from tokenizer import make_tokenizer
from train import Plan, TrainingData, train

TEMPERATURES = {"greedy": 0.0, "sampled": 1.0}
LIBRARIES = ("torch", "transformers", "tokenizers")


def main(arguments: list[str]) -> int:
    options = read_arguments(arguments)
    device = torch.device(options.device)
    started = time.monotonic()
    plan = Plan(
        steps=options.steps,
        minutes=options.minutes,
        batch=options.batch,
        mixed_conversations=options.conversations,
        right_conversations=max(1, options.conversations * 6 // 10),
    )
    shape = Shape(hidden=options.hidden, layers=options.layers, intermediate=3 * options.hidden)

    tokenizer = make_tokenizer()
    data = TrainingData(tokenizer, plan, options.seed)
    say(f"{len(data.lengths)} conversations, {len(data.ids) / 1e6:.1f} million tokens")
    torch.manual_seed(options.seed)
    model = make_model(tokenizer, shape).to(device)
    say(f"{model.num_parameters() / 1e6:.2f} million parameters, {device}")
    trained = train(model, data, plan, say=say)
    options.out.mkdir(parents=True, exist_ok=True)
    save_model(model, tokenizer, options.out)

    results = {
        "seed": options.seed,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "versions": {"python": sys.version.split()[0], **{name: version(name) for name in LIBRARIES}},
        "parameters": model.num_parameters(),
        "shape": dataclasses.asdict(shape),
        "plan": dataclasses.asdict(plan),
        "trained": dataclasses.asdict(trained),
        "evaluation": evaluate_folder(options.out, options.tasks, options.seed, device),
        "minutes": round((time.monotonic() - started) / 60, 2),
    }
    text = json.dumps(results, indent=2) + "\n"
    (options.out / "results.json").write_text(text, encoding="utf-8")
    print(text, end="", flush=True)
    return 0


def say(line: str) -> None:
    print(line, flush=True)


def evaluate_folder(folder: Path, tasks: int, seed: int, device: torch.device) -> dict[str, object]:
    """Of the weights as they were saved."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(device).eval()
    scores = {
        name: dataclasses.asdict(evaluate_model(model, tokenizer, tasks, temperature, seed))
        for name, temperature in TEMPERATURES.items()
    }
    return {"tasks": tasks, **scores}


def read_arguments(arguments: list[str]) -> argparse.Namespace:
    plan, shape = Plan(), Shape()
    parser = argparse.ArgumentParser(description="Makes the small model from nothing.")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=positive(float), default=plan.minutes, help="longest training (%(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:NUMBER (%(default)s)")
    parser.add_argument("--steps", type=positive(int), default=plan.steps, help="steps of training (%(default)s)")
    parser.add_argument("--tasks", type=positive(int), default=512, help="tasks to evaluate on (%(default)s)")
    scale = parser.add_argument_group("scale, for trying things")
    scale.add_argument("--conversations", type=positive(int), default=plan.mixed_conversations, help="(%(default)s)")
    scale.add_argument("--batch", type=positive(int), default=plan.batch, help="conversations a step (%(default)s)")
    scale.add_argument("--hidden", type=positive(int), default=shape.hidden, help="width (%(default)s)")
    scale.add_argument("--layers", type=positive(int), default=shape.layers, help="depth (%(default)s)")
    options = parser.parse_args(arguments)
    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    elif options.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error(f"--device {options.device}: torch finds no GPU here; give --device cpu")
    return options


def positive(kind: type) -> object:
    def parse(text: str) -> object:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not above 0")
        return value

    parse.__name__ = kind.__name__
    return parse


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
