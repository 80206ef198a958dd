import json

import pytest
from conftest import job_data

from job import read_job
from progress import Refusal


def write_job(folder, data):
    (folder / "job.json").write_text(json.dumps(data))
    return folder / "job.json"


def test_a_job_is_read_and_members_it_does_not_know_are_ignored(tmp_path):
    job = read_job(write_job(tmp_path, job_data(tmp_path, colour="blue")))
    assert job.hyper.lora_r == 32
    assert job.hyper.learning_rate == 0.002
    assert job.keep_adapter is False


def with_hyper(folder, **changes):
    data = job_data(folder)
    return {**data, "hyper": {**data["hyper"], **changes}}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: job_data(folder, profile="tpu"), "field profile is 'tpu'; use one of cpu, cuda"),
        (
            lambda folder: job_data(folder, quantization="int3"),
            "field quantization is 'int3'; use one of none, bitsandbytes",
        ),
        (lambda folder: job_data(folder, threads=0), "field threads must be at least 1, got 0"),
        (lambda folder: job_data(folder, seed="0"), 'field seed must be of type int, got "0"'),
        (lambda folder: job_data(folder, keep_adapter=1), "field keep_adapter must be of type bool, got 1"),
        (lambda folder: job_data(folder, base=str(folder)), "field base is .* which holds no config.json"),
        (lambda folder: job_data(folder, hyper=[]), "hyper must be a JSON object"),
        (lambda folder: with_hyper(folder, lora_r=True), "field hyper.lora_r must be of type int, got true"),
        (lambda folder: with_hyper(folder, max_steps=0), "field hyper.max_steps must be at least 1, got 0"),
        (lambda folder: with_hyper(folder, max_steps="2"), "field hyper.max_steps must be of type int or null"),
    ],
)
def test_a_wrong_member_is_named(tmp_path, make, message):
    with pytest.raises(Refusal, match=message):
        read_job(write_job(tmp_path, make(tmp_path)))


def test_a_missing_member_is_named(tmp_path):
    data = job_data(tmp_path)
    del data["hyper"]["epochs"]
    with pytest.raises(Refusal, match=r"field hyper\.epochs is missing"):
        read_job(write_job(tmp_path, data))


def test_an_output_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "model.safetensors").touch()
    with pytest.raises(Refusal, match="field output is .* exists and is not empty"):
        read_job(write_job(tmp_path, job_data(tmp_path)))


def test_a_job_file_that_is_no_json_is_refused(tmp_path):
    (tmp_path / "job.json").write_text("{")
    with pytest.raises(Refusal, match="is not JSON"):
        read_job(tmp_path / "job.json")
