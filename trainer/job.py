"""The job file: what to train on, from which weights, into which folder, and how."""

import json
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import get_args

from progress import Refusal


@dataclass(frozen=True)
class Hyper:
    lora_r: int
    lora_alpha: int
    lora_dropout: float
    learning_rate: float
    weight_decay: float
    warmup_steps: int
    schedule: str
    batch_size: int
    accumulation: int
    epochs: int
    optimizer: str
    # A cap: fewer steps are made when the epochs need fewer.
    max_steps: int | None = None


@dataclass(frozen=True)
class Job:
    base: str
    output: str
    rows: str
    profile: str
    seed: int
    max_length: int
    hyper: Hyper
    threads: int
    progress: str
    # How the model server holds the weights, so that what it says of them can be compared.
    quantization: str = "none"
    # Saves the LoRA adapter by itself, too, beside the merged weights.
    keep_adapter: bool = False


AT_LEAST_ONE = {"lora_r", "lora_alpha", "batch_size", "accumulation", "epochs", "max_steps", "max_length", "threads"}
PROFILES = ("cpu", "cuda")
QUANTIZATIONS = ("none", "bitsandbytes")


def read_job(path: Path) -> Job:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Refusal(f"cannot read the job file {path}: {error.strerror}") from error
    except ValueError as error:
        raise Refusal(f"the job file {path} is not JSON: {error}") from error
    job = _take(Job, data, str(path), "")
    if job.profile not in PROFILES:
        raise Refusal(f"{path}: field profile is {job.profile!r}; use one of {', '.join(PROFILES)}")
    if job.quantization not in QUANTIZATIONS:
        known = ", ".join(QUANTIZATIONS)
        raise Refusal(f"{path}: field quantization is {job.quantization!r}; use one of {known}")
    if not (Path(job.base) / "config.json").is_file():
        raise Refusal(f"{path}: field base is {job.base!r}, which holds no config.json")
    if Path(job.output).exists() and any(Path(job.output).iterdir()):
        raise Refusal(f"{path}: field output is {job.output!r}, which exists and is not empty")
    return job


def _take(kind: type, data: object, file: str, prefix: str):
    """Builds a dataclass from JSON; members it does not know are ignored."""
    if not isinstance(data, dict):
        raise Refusal(f"{file}: {prefix.rstrip('.') or 'the job'} must be a JSON object")
    values = {}
    for field in fields(kind):
        name = prefix + field.name
        if field.name not in data:
            if field.default is MISSING:
                raise Refusal(f"{file}: field {name} is missing")
            continue
        value = data[field.name]
        values[field.name] = (
            _take(Hyper, value, file, f"{name}.")
            if field.type is Hyper
            else _checked(value, field.type, field.name, f"{file}: field {name}")
        )
    return kind(**values)


def _checked(value: object, kind: type | UnionType, name: str, where: str) -> object:
    kinds = get_args(kind) or (kind,)
    accepted = (*kinds, int) if float in kinds else kinds
    if isinstance(value, bool) != (kind is bool) or not isinstance(value, accepted):
        wanted = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
        raise Refusal(f"{where} must be of type {wanted}, got {json.dumps(value)}")
    if kind is not bool and isinstance(value, (int, float)) and value < (1 if name in AT_LEAST_ONE else 0):
        raise Refusal(f"{where} must be at least {1 if name in AT_LEAST_ONE else 0}, got {value}")
    return value
