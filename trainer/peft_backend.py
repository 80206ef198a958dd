"""Loading and merging with transformers and PEFT: the CPU profile."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from job import Job
from weights import save_weights

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TRAINER_ARGUMENTS = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "dataloader_pin_memory": False,
}


def load(job: Job):
    """-> the base with a LoRA adapter in float32, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(job.base, local_files_only=True)
    base = AutoModelForCausalLM.from_pretrained(job.base, dtype=torch.float32, local_files_only=True)
    adapter = LoraConfig(
        r=job.hyper.lora_r,
        lora_alpha=job.hyper.lora_alpha,
        lora_dropout=job.hyper.lora_dropout,
        target_modules=PROJECTIONS,
        bias="none",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, adapter), tokenizer


def merge_and_save(model, tokenizer, base: Path, output: Path) -> None:
    save_weights(model.merge_and_unload(), base, output)
