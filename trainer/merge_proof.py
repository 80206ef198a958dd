"""Proof that saved weights are the base's plus what was learned, neither the base alone nor a quantised base."""

from pathlib import Path

import torch

from progress import Refusal
from weights import open_weights

PROVEN_MODULES = 8
# Both sides round the same sum to the base's type, in another order of additions.
RELATIVE_TOLERANCE = 2**-6


def learned(model) -> dict[str, torch.Tensor]:
    """Name of a weight in the base -> what its LoRA adapter adds to it; a few, spread over the layers."""
    modules = {
        name.removeprefix("base_model.model."): module
        for name, module in model.named_modules()
        if getattr(module, "lora_A", None)
    }
    names = list(modules)
    chosen = names[:: max(1, -(-len(names) // PROVEN_MODULES))]
    return {f"{name}.weight": _delta(modules[name]) for name in chosen}


def _delta(module) -> torch.Tensor:
    (adapter,) = module.lora_A.keys()
    down, up = module.lora_A[adapter].weight, module.lora_B[adapter].weight
    return (up.detach().float() @ down.detach().float() * module.scaling[adapter]).cpu()


def prove_merge(deltas: dict[str, torch.Tensor], base: Path, output: Path) -> int:
    """How many weights were compared; refuses the first one that is not base + learned."""
    before, after = open_weights(base), open_weights(output)
    for name, delta in deltas.items():
        if name not in before or name not in after:
            raise Refusal(f"the merge lost {name}: it is not in the {'merged' if name in before else 'base'} weights")
        old, new = before[name].get_tensor(name).float(), after[name].get_tensor(name).float()
        wrong = (new - (old + delta)).abs().max().item()
        # The rounding of 16-bit types grows with the weight itself.
        if wrong > RELATIVE_TOLERANCE * (old + delta).abs().max().item():
            raise Refusal(f"the merge is not the base plus the adapter: {name} differs by up to {wrong:.3g}")
    return len(deltas)
