"""A merge is the base plus the adapter: neither the base alone, nor a base that was rounded on the way."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from merge_proof import learned, prove_merge
from progress import Refusal
from weights import compare, save_weights


@pytest.fixture
def adapted(base):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    return get_peft_model(model, lora)


@pytest.fixture
def merged(adapted, base, tmp_path):
    """-> what the adapter adds, and a folder with the merged weights."""
    deltas = learned(adapted)
    save_weights(adapted.merge_and_unload(), base, tmp_path / "merged")
    return deltas, tmp_path / "merged"


def rewrite(folder, name, change) -> None:
    tensors = load_file(folder / "model.safetensors")
    tensors[name] = change(tensors[name])
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_a_merge_is_proven_on_weights_of_several_layers(merged, base):
    deltas, folder = merged
    assert prove_merge(deltas, base, folder) == len(deltas) == 5
    assert len({name.split(".")[2] for name in deltas}) > 2


def test_base_weights_instead_of_merged_ones_are_refused(merged, base):
    deltas, folder = merged
    name = next(iter(deltas))
    rewrite(folder, name, lambda _: load_file(base / "model.safetensors")[name])
    with pytest.raises(Refusal, match="the merge is not the base plus the adapter: model.layers.0"):
        prove_merge(deltas, base, folder)


def test_a_base_that_was_rounded_to_four_bits_is_refused(merged, base):
    deltas, folder = merged
    name = next(iter(deltas))

    def quantised(weight: torch.Tensor) -> torch.Tensor:
        scale = weight.float().abs().max() / 7
        return ((weight.float() / scale).round() * scale).to(weight.dtype)

    rewrite(folder, name, quantised)
    with pytest.raises(Refusal, match="the merge is not the base plus the adapter"):
        prove_merge(deltas, base, folder)


def test_a_weight_of_another_name_is_refused(merged, base):
    deltas, folder = merged
    with pytest.raises(Refusal, match="the merge lost model.other.weight: it is not in the base weights"):
        prove_merge({"model.other.weight": torch.zeros(1), **deltas}, base, folder)


def test_weights_of_another_type_than_the_base_s_are_refused(merged, base):
    _, folder = merged
    rewrite(folder, "model.norm.weight", lambda weight: weight.float())
    with pytest.raises(Refusal, match="not of the base's types: 1 differ, first model.norm.weight"):
        compare(base, folder)
