"""Model folders as files: what belongs to the base and is copied, what training changed, whether the result loads."""

import json
import shutil
from pathlib import Path

import torch
from safetensors import safe_open

from progress import Refusal

MANIFEST = "agl-manifest.json"
# Marks and proofs belong to one checkpoint; a version trained from it gets its own.
NOT_INHERITED = {MANIFEST, "STABLE"}
WEIGHT_SUFFIXES = (".safetensors", ".safetensors.index.json", ".bin", ".bin.index.json", ".pt", ".pth", ".gguf")


def open_weights(folder: Path) -> dict[str, object]:
    """Tensor name -> open safetensors file that holds it."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise Refusal(f"{folder} holds no .safetensors file")
    opened = {}
    for file in files:
        handle = safe_open(file, framework="pt")
        opened.update(dict.fromkeys(handle.keys(), handle))
    return opened


def dtypes(folder: Path) -> dict[str, torch.dtype]:
    return {name: handle.get_tensor(name).dtype for name, handle in open_weights(folder).items()}


def save_weights(model, base: Path, output: Path) -> None:
    """Saves every tensor in the type it has in the base."""
    wanted = dtypes(base)
    converted: dict[int, torch.Tensor] = {}
    state = {}
    for name, tensor in model.state_dict().items():
        # Tied tensors stay one tensor, or both would be written.
        at = tensor.data_ptr()
        if at not in converted:
            converted[at] = tensor.to(wanted.get(name, tensor.dtype)).contiguous()
        state[name] = converted[at]
    model.save_pretrained(output, state_dict=state)


def copy_companions(base: Path, output: Path) -> list[str]:
    """Everything but the weights comes from the base byte for byte; `save_pretrained` would rewrite it."""
    for file in output.iterdir():
        if file.is_file() and not file.name.endswith(WEIGHT_SUFFIXES):
            file.unlink()
    copied = []
    for file in sorted(base.iterdir()):
        if file.is_file() and not file.name.endswith(WEIGHT_SUFFIXES) and file.name not in NOT_INHERITED:
            shutil.copyfile(file, output / file.name)
            copied.append(file.name)
    return copied


def compare(base: Path, output: Path) -> dict[str, int]:
    """How many tensors training changed; refuses a result that lacks some, or equals the base."""
    before, after = open_weights(base), open_weights(output)
    if before.keys() != after.keys():
        odd = sorted(before.keys() ^ after.keys())
        raise Refusal(f"the merged weights do not hold the base's tensors: {len(odd)} differ, first {odd[0]}")
    types = [n for n in before if before[n].get_slice(n).get_dtype() != after[n].get_slice(n).get_dtype()]
    if types:
        raise Refusal(f"the merged weights are not of the base's types: {len(types)} differ, first {types[0]}")
    changed = sum(not torch.equal(before[n].get_tensor(n), after[n].get_tensor(n)) for n in before)
    if changed == 0:
        raise Refusal("the merged weights equal the base's: nothing was learned or the merge was lost")
    return {"changed": changed, "total": len(before)}


def write_manifest(output: Path, facts: dict[str, object]) -> None:
    (output / MANIFEST).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
