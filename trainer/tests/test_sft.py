"""The script as it is really started: a process of its own, judged by its exit code and files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import as_json, job_data, write_rows
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

SCRIPT = Path(__file__).parents[1] / "sft.py"


def start(*arguments: str, text: str = "") -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, SCRIPT, *arguments], input=text, capture_output=True, text=True, timeout=120)


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "progress.jsonl").read_text().splitlines()]


def train(folder: Path, rows: list[dict], **changes: object) -> subprocess.CompletedProcess:
    write_rows(folder / "rows.jsonl", rows)
    (folder / "job.json").write_text(json.dumps(job_data(folder, **changes)))
    return start(str(folder / "job.json"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory, rows) -> Path:
    """One training whose imports came before the job, with one row too long."""
    folder = tmp_path_factory.mktemp("trained")
    long = rows[0].input_ids * 80
    write_rows(
        folder / "rows.jsonl",
        [
            *map(as_json, rows),
            {**as_json(rows[0]), "input_ids": long, "labels": long, "attention_mask": [1] * len(long)},
        ],
    )
    (folder / "job.json").write_text(json.dumps(job_data(folder)))
    done = start("--prewarm", text=f"{folder / 'job.json'}\n")
    assert done.returncode == 0, done.stderr
    return folder


def test_the_last_line_is_the_result(trained, rows):
    result = lines(trained)[-1]
    assert result["kind"] == "result"
    assert result["rows"] == len(rows)
    assert result["dropped"] == {"too_long": 1}
    assert result["steps"] == 2
    assert result["loss_after"] < result["loss_before"]
    assert set(result["seconds"]) == {"imports", "load", "train", "merge", "verify"}


def test_probes_hold_the_log_probabilities_of_both_models(trained, base, rows):
    probes = lines(trained)[-1]["probes"]
    assert sorted(probe["ids"] for probe in probes) == sorted(row.input_ids for row in rows)
    for folder, name in ((base, "before"), (trained / "output", "after")):
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        ids = torch.tensor([probes[0]["ids"]])
        with torch.no_grad():
            log_softmax = model(ids).logits[0, :-1].log_softmax(-1)
        expected = log_softmax.gather(1, ids[0, 1:, None])[:, 0].tolist()
        assert probes[0][name] == pytest.approx(expected, abs=1e-4)
    assert probes[0]["before"] != probes[0]["after"]


def test_each_step_is_reported(trained):
    steps = [line["step"] for line in lines(trained) if line.get("phase") == "train" and "step" in line]
    assert steps == [1, 2]


def test_the_weights_have_the_base_s_names_shapes_and_types_and_other_values(trained, base):
    before = load_file(base / "model.safetensors")
    after = load_file(trained / "output" / "model.safetensors")
    assert {name: (t.shape, t.dtype) for name, t in after.items()} == {
        name: (t.shape, t.dtype) for name, t in before.items()
    }
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed == [name for name in before if "proj" in name]
    result = lines(trained)[-1]
    assert result["tensors"] == {"changed": len(changed), "total": len(before)}
    assert result["merged"] > 1


def test_all_other_files_are_the_base_s_byte_for_byte(trained, base):
    companions = {file.name for file in base.iterdir()} - {"model.safetensors"}
    assert {file.name for file in (trained / "output").iterdir()} == companions | {
        "model.safetensors",
        "agl-manifest.json",
    }
    for name in companions:
        assert (trained / "output" / name).read_bytes() == (base / name).read_bytes(), name


def test_the_manifest_says_how_the_weights_were_made(trained, base):
    manifest = json.loads((trained / "output" / "agl-manifest.json").read_text())
    assert manifest["base"] == str(base)
    assert manifest["hyper"]["lora_r"] == 32
    assert manifest["loss_after"] == lines(trained)[-1]["loss_after"]


def test_the_same_seed_gives_the_same_weights(trained, tmp_path, rows):
    assert train(tmp_path, list(map(as_json, rows))).returncode == 0
    name = "output/model.safetensors"
    assert (tmp_path / name).read_bytes() == (trained / name).read_bytes()


def test_a_bad_row_ends_in_one_error_line_and_no_weights(tmp_path, rows):
    bad = {**as_json(rows[1]), "labels": [-100] * len(rows[1].input_ids)}
    done = train(tmp_path, [as_json(rows[0]), bad])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    errors = [line for line in lines(tmp_path) if line["kind"] == "error"]
    assert [error["message"] for error in errors] == [
        "rows.jsonl:2: field labels has no trainable token after the first position"
    ]
    assert not (tmp_path / "output").exists()


def test_a_training_of_a_single_step_learns_although_it_is_shorter_than_the_warm_up(tmp_path, rows):
    hyper = {**job_data(tmp_path)["hyper"], "warmup_steps": 5, "max_steps": 1}
    done = train(tmp_path, list(map(as_json, rows)), hyper=hyper)
    assert done.returncode == 0, lines(tmp_path)[-1]
    result = lines(tmp_path)[-1]
    assert result["steps"] == 1
    assert result["loss_after"] != result["loss_before"]


def test_a_training_that_changes_nothing_is_refused(tmp_path, rows):
    hyper = {**job_data(tmp_path)["hyper"], "learning_rate": 0.0}
    assert train(tmp_path, [as_json(rows[0])], hyper=hyper).returncode == 1
    assert "the merged weights equal the base's" in lines(tmp_path)[-1]["message"]


def test_a_prewarmed_trainer_that_is_not_needed_leaves_quietly():
    done = start("--prewarm")
    assert (done.returncode, done.stdout) == (0, "")


def test_a_job_that_cannot_be_read_is_one_line(tmp_path):
    done = start(str(tmp_path / "none.json"))
    assert done.returncode == 1
    assert done.stderr == f"error: cannot read the job file {tmp_path / 'none.json'}: No such file or directory\n"
