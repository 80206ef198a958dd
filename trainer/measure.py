"""What a fresh load of a model says of the rows: its loss on them, and log-probabilities to compare a server with.

    python measure.py     reads lines {"folder", "rows", "max_length", "profile", "quantization"}, answers each with one

Unsloth changes the model classes of the process that imports it, so beside it this runs as a process of its own: what
it measures is what plain transformers makes of the files. It takes no GPU memory before its first question.
"""

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from rows import Row, read_rows

MEASURED_ROWS = 64
PROBES = 8


@dataclass(frozen=True)
class Measurement:
    loss: float
    rows: int
    probe_ids: list[list[int]]
    probes: list[list[float]]
    gpu_peak_bytes: int | None = None


def load(folder: Path, profile: str, quantization: str):
    """The weights as the model server has them: 16 bits or 4 on a GPU. On the CPU exactly, as they are few."""
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    if profile == "cpu":
        return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    # vLLM quantises with the same function and the same choices when it loads 16-bit weights.
    four_bits = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    return AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.bfloat16,
        local_files_only=True,
        device_map={"": "cuda"},
        quantization_config=four_bits if quantization == "bitsandbytes" else None,
    )


def measure(folder: Path, rows: Sequence[Row], profile: str, quantization: str = "none") -> Measurement:
    import torch

    from loss import token_losses, trainable

    model = load(folder, profile, quantization).eval()
    sample = spread(rows, MEASURED_ROWS)
    losses = [token_losses(model, row.input_ids).cpu() for row in sample]
    kept = torch.cat([some[trainable(row)] for some, row in zip(losses, sample, strict=True)])
    return Measurement(
        loss=round(kept.double().mean().item(), 6),
        rows=len(sample),
        probe_ids=[row.input_ids for row in sample],
        probes=[[-round(loss, 5) for loss in some.tolist()] for some in losses],
        gpu_peak_bytes=torch.cuda.max_memory_allocated() if profile == "cuda" else None,
    )


def spread(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """At most `count` rows, evenly spread over all."""
    return rows[:: max(1, -(-len(rows) // count))]


def telling_probes(before: Measurement, after: Measurement) -> list[dict[str, object]]:
    """The sequences on which the two models differ most: a server's answers on them tell best which one it has."""
    probes = [
        {"ids": ids, "before": old, "after": new}
        for ids, old, new in zip(before.probe_ids, before.probes, after.probes, strict=True)
    ]

    def difference(probe: dict[str, list]) -> float:
        pairs = zip(probe["before"], probe["after"], strict=True)
        return sum(abs(old - new) for old, new in pairs) / max(1, len(probe["before"]))

    return sorted(probes, key=difference, reverse=True)[:PROBES]


class MeasuringProcess:
    """Starts at once, so that its imports run beside the trainer's; ends when its input does, also when we die."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def measure(
        self, folder: Path, rows: Path, max_length: int, profile: str, quantization: str = "none"
    ) -> Measurement:
        question = {
            "folder": str(folder),
            "rows": str(rows),
            "max_length": max_length,
            "profile": profile,
            "quantization": quantization,
        }
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise RuntimeError(f"the process that measures {folder} ended with exit code {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{folder} cannot be measured: {answer['error']}")
        return Measurement(**answer)

    def close(self) -> None:
        # A question that a dead process never read is flushed by closing.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()


def main() -> int:
    # Whatever libraries print must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig, PreTrainedModel  # noqa: F401

    for line in sys.stdin:
        question = json.loads(line)
        try:
            rows = read_rows(Path(question["rows"]), math.inf, question["max_length"]).rows
            how = question["profile"], question["quantization"]
            answer = asdict(measure(Path(question["folder"]), rows, *how))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        print(json.dumps(answer), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
