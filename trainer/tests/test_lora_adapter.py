"""The adapter that is kept is the one that was merged: base + adapter says what the merged model says."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from conftest import as_json, job_data
from peft import PeftModel
from safetensors.torch import load_file, save_file
from test_sft import lines, train
from transformers import AutoModelForCausalLM

from lora_adapter import CONFIG, WEIGHTS, prove_adapter
from merge_proof import learned
from progress import Refusal

STEPS = 12


@pytest.fixture(scope="module")
def kept(tmp_path_factory, rows) -> Path:
    """A training that kept its adapter, long enough to change more than the rounding to 16 bits does."""
    folder = tmp_path_factory.mktemp("kept")
    hyper = {**job_data(folder)["hyper"], "max_steps": STEPS, "epochs": STEPS}
    done = train(folder, list(map(as_json, rows)), keep_adapter=True, hyper=hyper)
    assert done.returncode == 0, done.stderr
    return folder


def logits(model, rows) -> torch.Tensor:
    with torch.inference_mode():
        return torch.cat([model.eval()(torch.tensor([row.input_ids])).logits[0] for row in rows])


def plain(folder: Path):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def test_base_and_adapter_say_what_the_merged_model_says(kept, rows):
    adapter = kept / "output" / "adapter"
    named = json.loads((adapter / CONFIG).read_text())["base_model_name_or_path"]
    together = logits(PeftModel.from_pretrained(plain(named), adapter), rows)
    merged, base = logits(plain(kept / "output"), rows), logits(plain(named), rows)
    learned_difference = (merged - base).abs().mean().item()
    assert learned_difference > 0.1
    # The merged weights are rounded to 16 bits.
    assert (merged - together).abs().mean().item() < 0.05 * learned_difference


def test_base_and_adapter_merged_anew_are_the_merged_weights_bit_for_bit(kept, base):
    anew = PeftModel.from_pretrained(plain(base), kept / "output" / "adapter").merge_and_unload().state_dict()
    for name, tensor in load_file(kept / "output" / "model.safetensors").items():
        assert torch.equal(anew[name].to(tensor.dtype), tensor), name


def test_the_folder_holds_the_adapter_alone_and_names_the_base(kept, base):
    adapter = kept / "output" / "adapter"
    assert {file.name for file in adapter.iterdir()} == {CONFIG, WEIGHTS}
    config = json.loads((adapter / CONFIG).read_text())
    assert config["base_model_name_or_path"] == str(base)
    assert (config["peft_type"], config["task_type"], config["r"]) == ("LORA", "CAUSAL_LM", 32)
    assert str(kept) not in (adapter / CONFIG).read_text()


def test_the_manifest_tells_of_the_adapter_s_files(kept, base):
    manifest = json.loads((kept / "output" / "agl-manifest.json").read_text())
    sizes = {file.name: file.stat().st_size for file in (kept / "output" / "adapter").iterdir()}
    tensors = len(load_file(kept / "output" / "adapter" / WEIGHTS))
    assert manifest["adapter"] == {"folder": "adapter", "base": str(base), "tensors": tensors, "files": sizes}
    assert lines(kept)[-1]["adapter"] == manifest["adapter"]


def test_the_merged_folder_is_otherwise_what_it_is_without(kept, tmp_path, rows):
    hyper = {**job_data(tmp_path)["hyper"], "max_steps": STEPS, "epochs": STEPS}
    assert train(tmp_path, list(map(as_json, rows)), hyper=hyper).returncode == 0
    without = {file.name: file for file in (tmp_path / "output").iterdir()}
    assert {file.name for file in (kept / "output").iterdir()} == {*without, "adapter"}
    for name, file in without.items():
        if name != "agl-manifest.json":
            assert (kept / "output" / name).read_bytes() == file.read_bytes(), name


def test_a_version_that_holds_an_adapter_is_trained_on_alone(kept, tmp_path, rows):
    """The next round's base: its own adapter is neither read nor passed on."""
    assert train(tmp_path, list(map(as_json, rows)), base=str(kept / "output")).returncode == 0
    assert not (tmp_path / "output" / "adapter").exists()


@pytest.fixture
def copy(kept, tmp_path) -> tuple[dict[str, torch.Tensor], Path]:
    """-> what the adapter adds, and a copy of its folder to spoil."""
    model = PeftModel.from_pretrained(plain(kept / "output"), kept / "output" / "adapter")
    return learned(model), Path(shutil.copytree(kept / "output" / "adapter", tmp_path / "adapter"))


def test_a_whole_adapter_is_proven(copy):
    deltas, folder = copy
    assert prove_adapter(deltas, folder) == len(load_file(folder / WEIGHTS))


def test_an_adapter_with_other_numbers_is_refused(copy):
    deltas, folder = copy
    save_file({name: tensor * 1.1 for name, tensor in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    with pytest.raises(Refusal, match=r"the saved adapter is not what was learned: model\.layers\.0"):
        prove_adapter(deltas, folder)


def test_an_adapter_of_another_scale_is_refused(copy):
    deltas, folder = copy
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, "lora_alpha": 2 * config["lora_alpha"]}))
    with pytest.raises(Refusal, match="the saved adapter is not what was learned"):
        prove_adapter(deltas, folder)


def test_an_adapter_that_lacks_a_module_is_refused(copy):
    deltas, folder = copy
    tensors = load_file(folder / WEIGHTS)
    save_file({name: tensor for name, tensor in tensors.items() if "layers.0" not in name}, folder / WEIGHTS)
    with pytest.raises(Refusal, match=r"the saved adapter lost base_model\.model\.model\.layers\.0"):
        prove_adapter(deltas, folder)
