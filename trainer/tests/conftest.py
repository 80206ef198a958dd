import json
import shutil
import sys
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from rows import IGNORED, Row

ROOT = Path(__file__).parents[2]
BASE = ROOT / "data" / "small-model"
sys.path.insert(0, str(ROOT / "scripts" / "small-model"))


@pytest.fixture(scope="session")
def base() -> Path:
    return BASE


@pytest.fixture(scope="session")
def rows() -> list[Row]:
    """Rows of unequal lengths, each with a prompt that is not to be trained on."""
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    lines = (ROOT / "data" / "tasks" / "train.jsonl").read_text().splitlines()[:6]
    made = []
    for index, task in enumerate(map(json.loads, lines)):
        prompt = tokenizer.encode(task["input"] * (1 + index % 3), add_special_tokens=False)
        completion = tokenizer.encode(f"### {task['target']} ###<|im_end|>", add_special_tokens=False)
        made.append(Row(prompt + completion, [IGNORED] * len(prompt) + completion, 1.0))
    return made


@pytest.fixture
def base_copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BASE, tmp_path / "base"))


def as_json(row: Row) -> dict[str, object]:
    return {
        "input_ids": row.input_ids,
        "attention_mask": [1] * len(row.input_ids),
        "labels": row.labels,
        "reward": row.reward,
    }


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def job_data(folder: Path, **changes: object) -> dict[str, object]:
    hyper = json.loads((BASE / "agl-model.json").read_text())["training"]
    return {
        "base": str(BASE),
        "output": str(folder / "output"),
        "rows": str(folder / "rows.jsonl"),
        "profile": "cpu",
        "seed": 0,
        "max_length": hyper["max_length"],
        "hyper": {**hyper, "max_steps": 2, "batch_size": 3},
        "threads": 1,
        "progress": str(folder / "progress.jsonl"),
        **changes,
    }
