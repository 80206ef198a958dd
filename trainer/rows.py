"""Training rows as the model server produced them: token ids, never text."""

import json
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from progress import Refusal

IGNORED = -100


@dataclass(frozen=True)
class Row:
    input_ids: list[int]
    labels: list[int]
    reward: float


@dataclass(frozen=True)
class RowSet:
    rows: list[Row]
    dropped: dict[str, int]


def read_rows(path: Path, vocabulary: int, max_length: int) -> RowSet:
    """A malformed row is refused with its line and field; a row that is too long is left out and counted."""
    kept: list[Row] = []
    dropped: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                row = _parse(line, f"{path.name}:{number}", vocabulary)
                if len(row.input_ids) > max_length:
                    dropped["too_long"] += 1
                else:
                    kept.append(row)
    except OSError as error:
        raise Refusal(f"cannot read the rows {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refusal(f"{path.name}: not UTF-8: {error}") from error
    if not kept:
        reason = (
            f"all {dropped['too_long']} rows are longer than {max_length} tokens" if dropped else "the file is empty"
        )
        raise Refusal(f"{path.name}: nothing to train on: {reason}")
    return RowSet(kept, dict(dropped))


def _parse(line: str, where: str, vocabulary: int) -> Row:
    try:
        data = json.loads(line)
    except ValueError as error:
        raise Refusal(f"{where}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise Refusal(f"{where}: must be a JSON object")
    input_ids = _whole_numbers(data, "input_ids", where)
    labels = _whole_numbers(data, "labels", where)
    mask = _whole_numbers(data, "attention_mask", where)
    if not input_ids:
        raise Refusal(f"{where}: field input_ids is empty")
    for name, values in (("labels", labels), ("attention_mask", mask)):
        if len(values) != len(input_ids):
            raise Refusal(f"{where}: field {name} has {len(values)} entries, input_ids has {len(input_ids)}")
    for index, (token, label, attended) in enumerate(zip(input_ids, labels, mask, strict=True)):
        if not 0 <= token < vocabulary:
            raise Refusal(f"{where}: field input_ids[{index}] is {token}, outside the vocabulary of {vocabulary}")
        if label not in (IGNORED, token):
            raise Refusal(f"{where}: field labels[{index}] is {label}, must be {IGNORED} or the token {token} itself")
        if attended != 1:
            raise Refusal(f"{where}: field attention_mask[{index}] is {attended}, must be 1: rows hold no padding")
    if all(label == IGNORED for label in labels[1:]):
        raise Refusal(f"{where}: field labels has no trainable token after the first position")
    reward = data.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        raise Refusal(f"{where}: field reward must be a finite number, got {json.dumps(reward)}")
    return Row(input_ids, labels, float(reward))


def _whole_numbers(data: dict, name: str, where: str) -> list[int]:
    if name not in data:
        raise Refusal(f"{where}: field {name} is missing")
    values = data[name]
    if not isinstance(values, list):
        raise Refusal(f"{where}: field {name} must be a list of whole numbers")
    for index, value in enumerate(values):
        if type(value) is not int:
            raise Refusal(f"{where}: field {name}[{index}] must be a whole number, got {json.dumps(value)}")
    return values
