"""What the real training library does with our labels, on the real small model."""

import json
from dataclasses import replace

import pytest
import torch
from conftest import job_data

import peft_backend
from job import read_job
from labels import LabelProof, sequences
from loss import mean_loss
from progress import Progress, Refusal
from proving_trainer import Reporter, make_trainer
from rows import Row


@pytest.fixture(scope="module")
def trainer(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("labels")
    (folder / "job.json").write_text(json.dumps(job_data(folder)))
    job = read_job(folder / "job.json")
    model, tokenizer = peft_backend.load(job)
    reporter = Reporter(Progress(folder / "progress.jsonl"))
    return make_trainer(job, model, tokenizer, rows, reporter, str(folder), peft_backend.TRAINER_ARGUMENTS)


def collate(trainer, rows: list[Row]) -> dict:
    return trainer.data_collator([{"input_ids": row.input_ids, "labels": row.labels} for row in rows])


def library_loss(trainer, rows: list[Row]) -> float:
    trainer.model.eval()
    return trainer.batch_loss(trainer.model, collate(trainer, rows))


def test_the_library_s_loss_is_the_loss_of_our_labels(trainer, rows):
    everything = [replace(row, labels=row.input_ids) for row in rows]
    assert library_loss(trainer, rows) == pytest.approx(mean_loss(trainer.model, rows), rel=1e-4)
    assert library_loss(trainer, everything) == pytest.approx(mean_loss(trainer.model, everything), rel=1e-4)
    assert abs(library_loss(trainer, rows) - library_loss(trainer, everything)) > 0.1


def test_nothing_is_learned_from_prompt_targets(trainer, rows):
    """The loss moves with what is predicted for trainable tokens only: its gradient is zero everywhere else."""
    row = max(rows, key=lambda row: len(row.input_ids))
    hidden = []
    norm = trainer.model.base_model.model.model.norm
    hook = norm.register_forward_hook(lambda *call: call[2].retain_grad() or hidden.append(call[2]))
    try:
        trainer.model.train()
        trainer.compute_loss(trainer.model, collate(trainer, [row])).backward()
    finally:
        hook.remove()
        trainer.model.zero_grad()
    moved = hidden[0].grad[0].abs().sum(-1) > 0
    predicts_a_trainable_token = torch.tensor([label != -100 for label in row.labels[1:]] + [False])
    assert torch.equal(moved, predicts_a_trainable_token)


def test_a_batch_s_loss_is_the_weighted_mean_of_its_rows_losses(trainer, rows):
    assert len({len(row.input_ids) for row in rows}) > 1
    weights = [sum(label != -100 for label in row.labels[1:]) for row in rows]
    singles = [library_loss(trainer, [row]) for row in rows]
    mean = sum(weight * loss for weight, loss in zip(weights, singles, strict=True)) / sum(weights)
    assert library_loss(trainer, rows) == pytest.approx(mean, rel=1e-4)


def test_the_proof_says_what_it_compared(trainer, rows):
    facts = trainer.prove(trainer.model, collate(trainer, rows[:3]))
    assert facts["rows"] == 3
    assert facts["loss"] == pytest.approx(facts["masked_loss"], rel=1e-3)
    assert facts["loss"] != pytest.approx(facts["unmasked_loss"], rel=1e-2)


def test_the_proof_refuses_a_loss_over_every_token(trainer, rows):
    loss = library_loss(trainer, [replace(row, labels=row.input_ids) for row in rows])
    with pytest.raises(Refusal, match="labels are not honoured: the first batch's loss is"):
        LabelProof(rows).check(trainer.model, collate(trainer, rows), loss)


def test_the_proof_refuses_labels_that_were_rebuilt(trainer, rows):
    batch = collate(trainer, rows)
    batch["labels"] = batch["input_ids"].clone()
    with pytest.raises(Refusal, match="the first batch's labels are not those of its rows"):
        trainer.prove(trainer.model, batch)


def test_the_proof_refuses_a_row_that_was_cut(trainer, rows):
    batch = {name: tensor[:, :-4] for name, tensor in collate(trainer, rows).items()}
    with pytest.raises(Refusal, match="is none of the rows"):
        trainer.prove(trainer.model, batch)


def padding_free(rows: list[Row], **fields: object) -> dict:
    """As Unsloth makes it: one row of all, without a mask; `fields` say where each begins."""
    return {
        "input_ids": torch.tensor([[token for row in rows for token in row.input_ids]]),
        "labels": torch.tensor([[label for row in rows for label in row.labels]]),
        **fields,
    }


def restarting_positions(rows: list[Row]) -> torch.Tensor:
    return torch.cat([torch.arange(len(row.input_ids)) for row in rows])[None]


def packed_lengths(rows: list[Row]) -> torch.Tensor:
    return torch.tensor([len(row.input_ids) for row in rows], dtype=torch.int32)


@pytest.mark.parametrize("packed", [False, True])
def test_rows_are_found_again_in_a_batch_packed_end_to_end(rows, packed):
    fields = {"packed_seq_lengths": packed_lengths(rows)} if packed else {"position_ids": restarting_positions(rows)}
    assert sequences(padding_free(rows, **fields)) == [(row.input_ids, row.labels) for row in rows]


def test_filling_behind_the_last_packed_row_is_not_a_row(rows):
    batch = padding_free([*rows, Row([0] * 5, [-100] * 5, 0.0)], packed_seq_lengths=packed_lengths(rows))
    assert sequences(batch) == [(row.input_ids, row.labels) for row in rows]


def test_trainable_tokens_behind_the_last_packed_row_are_refused(rows):
    batch = padding_free(rows, packed_seq_lengths=packed_lengths(rows[:-1]))
    with pytest.raises(Refusal, match="its rows are said to have"):
        sequences(batch)


def test_the_proof_holds_on_a_padding_free_batch(trainer, rows):
    batch = padding_free(rows, packed_seq_lengths=packed_lengths(rows))
    proof = LabelProof(rows)
    facts = proof.check(trainer.model, batch, mean_loss(trainer.model, rows))
    assert facts["rows"] == len(rows)
    assert facts["trainable_tokens"] == sum(label != -100 for row in rows for label in row.labels[1:])
    everything = mean_loss(trainer.model, [replace(row, labels=row.input_ids) for row in rows])
    with pytest.raises(Refusal, match="labels are not honoured: the first batch's loss is"):
        proof.check(trainer.model, batch, everything)
    batch["labels"] = batch["input_ids"].clone()
    with pytest.raises(Refusal, match="the first batch's labels are not those of its rows"):
        proof.check(trainer.model, batch, everything)
