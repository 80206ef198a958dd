"""The LoRA adapter by itself, in PEFT's format, in a folder of its own inside that of the merged weights."""

import json
from pathlib import Path

import torch
from safetensors import safe_open

from progress import Refusal

FOLDER = "adapter"
CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
PREFIX = "base_model.model."
# A GPU may multiply float32 with a mantissa of 10 bits, sums of which are off by more than that.
RELATIVE_TOLERANCE = 2**-6


def save_adapter(model, deltas: dict[str, torch.Tensor], base: Path, output: Path) -> dict[str, object]:
    """Writes the adapter and reads it again: `deltas` is what a few weights of the model get from it.

    To be called before the merge, which may take the adapter out of the model.
    """
    folder = output / FOLDER
    # An adapter has no embeddings; PEFT would ask the hub whether the base has others now.
    model.save_pretrained(str(folder), save_embedding_layers=False)
    # A model card of which nothing is filled in.
    (folder / "README.md").unlink(missing_ok=True)
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    # What it was trained on, whatever name the model was loaded under.
    config["base_model_name_or_path"] = str(base.resolve())
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    return {
        "folder": FOLDER,
        "base": config["base_model_name_or_path"],
        "tensors": prove_adapter(deltas, folder),
        "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
    }


def prove_adapter(deltas: dict[str, torch.Tensor], folder: Path) -> int:
    """How many tensors the file holds; refuses one that would not add what training learned."""
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    scale = config["lora_alpha"] / config["r"]
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        names = set(file.keys())
        for weight, delta in deltas.items():
            module = PREFIX + weight.removesuffix(".weight")
            down, up = f"{module}.lora_A.weight", f"{module}.lora_B.weight"
            if not {down, up} <= names:
                raise Refusal(f"the saved adapter lost {module}")
            saved = scale * (file.get_tensor(up).float() @ file.get_tensor(down).float())
            wrong = (saved - delta).abs().max().item()
            if wrong > RELATIVE_TOLERANCE * delta.abs().max().item():
                raise Refusal(f"the saved adapter is not what was learned: {weight} differs by up to {wrong:.3g}")
    return len(names)
