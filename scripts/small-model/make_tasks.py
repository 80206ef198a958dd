"""Writes data/tasks/train.jsonl and data/tasks/validation.jsonl in GSM-hard's shape. Needs only Python 3.11.

    python scripts/small-model/make_tasks.py [--check]

With --check nothing is written: exit code 1 when the committed files are not what this script makes.
"""

import json
import random
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from problems import TEMPLATES, Problem, Split, make_problem

FOLDER = Path(__file__).parents[2] / "data" / "tasks"
TASKS = 256
SEEDS: dict[Split, int] = {"train": 20260101, "validation": 20260102}


def make_tasks(split: Split, count: int = TASKS) -> list[dict[str, object]]:
    generator = random.Random(SEEDS[split])
    tasks: dict[str, dict[str, object]] = {}
    while len(tasks) < count:
        problem = make_problem(generator, split)
        tasks.setdefault(problem.question, as_task(problem))
    return list(tasks.values())


def as_task(problem: Problem) -> dict[str, object]:
    return {"input": problem.question, "target": json.loads(problem.answer), "code": code_of(problem)}


def code_of(problem: Problem) -> str:
    spaced = re.sub(r"([-+*/])", r" \1 ", TEMPLATES[problem.template].expression)
    lines = [
        "def solution():",
        f'    """{problem.question}"""',
        *(f"    {letter} = {value}" for letter, value in problem.quantities.items()),
        f"    result = {spaced}",
        "    return result",
    ]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    stale = []
    for split in SEEDS:
        file = FOLDER / f"{split}.jsonl"
        text = "".join(json.dumps(task) + "\n" for task in make_tasks(split))
        if "--check" not in arguments:
            FOLDER.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif not file.is_file() or file.read_text(encoding="utf-8") != text:
            stale.append(file)
    for file in stale:
        print(f"{file} is not what this script makes; run it without --check", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
