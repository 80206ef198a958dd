"""Loading and merging with Unsloth: the CUDA profile, 4-bit base and merged 16-bit weights."""

from pathlib import Path

from no_cuda_context import no_cuda_context

# Before all other libraries, as Unsloth changes what they are.
with no_cuda_context():
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
    # Training saw a base of 4 bits; the merge reads the base's own 16-bit files again, shard by shard, and adds the
    # adapter to them in float32 (unsloth_zoo.saving_utils.merge_and_overwrite_lora). So quantisation errors do not add
    # up from one iteration to the next; merge_proof checks it.
    model.save_pretrained_merged(str(output), tokenizer, save_method="merged_16bit")
