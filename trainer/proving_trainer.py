"""TRL's SFTTrainer on ready-made rows; it proves that labels are honoured before its first step."""

import math

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from environment import environment
from job import Job
from labels import LabelProof
from progress import Progress, Refusal
from rows import Row


class ProvingTrainer(SFTTrainer):
    label_proof: LabelProof
    proven: dict[str, object] | None = None

    def training_step(self, model, inputs, *rest):
        if self.proven is None:
            self.proven = self.prove(model, self._prepare_inputs(inputs))
        return super().training_step(model, inputs, *rest)

    def prove(self, model, batch: dict) -> dict[str, object]:
        model.eval()
        loss = self.batch_loss(model, batch)
        # Unsloth makes no logits unless asked. Asked when the trainer is made, it would give up padding-free batches.
        with environment("UNSLOTH_RETURN_LOGITS", "1"):
            facts = self.label_proof.check(model, batch, loss)
        model.train()
        return facts

    @torch.no_grad()
    def batch_loss(self, model, batch: dict) -> float:
        return self.compute_loss(model, dict(batch)).item()


class Reporter(TrainerCallback):
    """Passes each step's loss on; a loss that is no number ends the training."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.losses: list[float] = []

    def on_log(self, args, state, control, logs=None, **_):
        if not logs or "loss" not in logs:
            return
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise Refusal(f"the loss of step {state.global_step} is {loss}; lower hyper.learning_rate")
        self.losses.append(round(loss, 6))
        self.progress.progress("train", step=state.global_step, steps=state.max_steps, loss=self.losses[-1])


def make_trainer(job: Job, model, tokenizer, rows: list[Row], reporter: Reporter, scratch: str, arguments: dict):
    hyper = job.hyper
    dataset = Dataset.from_list([{"input_ids": row.input_ids, "labels": row.labels} for row in rows])
    # Longer rows were left out, which Unsloth wants to be told: else it pads every batch.
    dataset._unsloth_truncated_to = job.max_length
    steps = hyper.epochs * math.ceil(math.ceil(len(rows) / hyper.batch_size) / hyper.accumulation)
    max_steps = min(steps, hyper.max_steps or steps)
    trainer = ProvingTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=dataset,
        callbacks=[reporter],
        args=SFTConfig(
            output_dir=scratch,
            # The rows are ready: nothing may tokenise, cut or pack them.
            dataset_kwargs={"skip_prepare_dataset": True},
            max_length=None,
            packing=False,
            per_device_train_batch_size=hyper.batch_size,
            gradient_accumulation_steps=hyper.accumulation,
            max_steps=max_steps,
            learning_rate=hyper.learning_rate,
            weight_decay=hyper.weight_decay,
            # The rate of the first of these steps is 0: a single one would learn nothing.
            warmup_steps=min(hyper.warmup_steps, max_steps // 2),
            lr_scheduler_type=hyper.schedule,
            optim=hyper.optimizer,
            seed=job.seed,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            **arguments,
        ),
    )
    trainer.label_proof = LabelProof(rows)
    trainer.remove_callback(PrinterCallback)
    return trainer
