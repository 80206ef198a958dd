"""Loading and merging with Unsloth: the CUDA profile, 4-bit base and merged 16-bit weights."""

import os
from pathlib import Path

# The proof that labels are honoured needs logits, which Unsloth leaves out unless asked before its import.
os.environ.setdefault("UNSLOTH_RETURN_LOGITS", "1")

from unsloth import FastLanguageModel

from job import Job

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TRAINER_ARGUMENTS: dict[str, object] = {"bf16": True}


def load(job: Job):
    """-> the base in 4 bits with a LoRA adapter, and its tokenizer."""
    model, tokenizer = FastLanguageModel.from_pretrained(
        job.base, load_in_4bit=True, max_seq_length=job.max_length, local_files_only=True
    )
    model = FastLanguageModel.get_peft_model(
        model,
        r=job.hyper.lora_r,
        lora_alpha=job.hyper.lora_alpha,
        lora_dropout=job.hyper.lora_dropout,
        target_modules=PROJECTIONS,
        bias="none",
        use_gradient_checkpointing="unsloth",
        random_state=job.seed,
    )
    return model, tokenizer


def merge_and_save(model, tokenizer, base: Path, output: Path) -> None:
    model.save_pretrained_merged(str(output), tokenizer, save_method="merged_16bit")
