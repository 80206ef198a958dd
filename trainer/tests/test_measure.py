"""Measuring here, and in a process of its own as beside Unsloth: the same numbers."""

import pytest
import torch
from conftest import as_json, write_rows
from transformers import AutoModelForCausalLM

from loss import mean_loss
from measure import MeasuringProcess, measure, spread, telling_probes


@pytest.fixture
def process():
    started = MeasuringProcess()
    yield started
    started.close()


def test_the_loss_is_that_over_the_trainable_tokens(base, rows):
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    assert measure(base, rows, "cpu").loss == pytest.approx(mean_loss(model, rows), abs=1e-5)


def test_a_process_of_its_own_gives_the_same_answer_and_goes_on_after_a_bad_question(process, base, rows, tmp_path):
    file = write_rows(tmp_path / "rows.jsonl", list(map(as_json, rows)))
    with pytest.raises(RuntimeError, match=r"none cannot be measured: \w+Error"):
        process.measure(tmp_path / "none", file, 1024, "cpu")
    assert process.measure(base, file, 1024, "cpu") == measure(base, rows, "cpu")


def test_a_process_that_ended_is_said_to_have(process, base, tmp_path):
    process._process.kill()
    process._process.wait()
    with pytest.raises(RuntimeError, match="the process that measures .* ended with exit code -9"):
        process.measure(base, tmp_path / "rows.jsonl", 1024, "cpu")
    # The question that was never read stays in the pipe's buffer, and closing would send it again.
    process.close()


def test_a_sample_is_spread_over_all_rows():
    assert spread(range(10), 64) == range(10)
    assert list(spread(range(10), 4)) == [0, 3, 6, 9]


def test_the_probes_that_differ_most_come_first(base, rows):
    before = measure(base, rows[:3], "cpu")
    changed = [[old - step for old in olds] for step, olds in zip((0.1, 0.3, 0.2), before.probes, strict=True)]
    probes = telling_probes(before, type(before)(before.loss, 3, before.probe_ids, changed))
    assert [probe["ids"] for probe in probes] == [rows[index].input_ids for index in (1, 2, 0)]
