"""Fine-tunes a model on rows of token ids and saves the merged weights, and the LoRA adapter where the job asks for it.

    python sft.py JOB.json
    python sft.py --prewarm [--profile cpu]     imports first, then reads the job file's name from stdin

Exit code 0 after a `result` line in the job's progress file, 1 after an `error` line.
"""

import argparse
import gc
import importlib
import math
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

STARTED = time.monotonic()
# Threads that spin while they wait take the cores from whoever shares the machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.insert(0, str(Path(__file__).parent))

from job import PROFILES, Job, read_job  # noqa: E402
from progress import Progress, Refusal  # noqa: E402

BACKENDS = {"cpu": "peft_backend", "cuda": "unsloth_backend"}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fine-tunes a model on rows of token ids.")
    parser.add_argument("job", nargs="?", type=Path)
    parser.add_argument("--prewarm", action="store_true", help="import first, then read the job's name from stdin")
    parser.add_argument("--profile", choices=PROFILES, default="cpu", help="what --prewarm imports for")
    options = parser.parse_args(arguments)
    if (options.job is None) != options.prewarm:
        parser.error("give either a job file or --prewarm")

    seconds: dict[str, float] = {}
    measuring = None
    if options.prewarm:
        measuring = import_libraries(options.profile)
        seconds["imports"] = round(time.monotonic() - STARTED, 3)
        line = sys.stdin.readline().strip()
        if not line:
            return 0
        options.job = Path(line)

    progress = None
    try:
        job = read_job(options.job)
        progress = Progress(Path(job.progress), seconds)
        if options.prewarm and job.profile != options.profile:
            raise Refusal(f"{options.job}: field profile is {job.profile!r}, but --prewarm was for {options.profile!r}")
        if not options.prewarm:
            with progress.phase("imports"):
                measuring = import_libraries(job.profile)
        progress.result(run(job, progress, measuring))
        return 0
    except Refusal as refusal:
        report(progress, str(refusal))
    except MemoryError:
        report(progress, "out of memory; lower hyper.batch_size or max_length")
    except Exception as error:
        traceback.print_exc()
        report(progress, f"{type(error).__name__}: {first_line(error)}", traceback=traceback.format_exc())
    return 1


def run(job: Job, progress: Progress, measuring) -> dict[str, object]:
    """Load, train, merge, verify; returns the result, most of which also stays beside the weights."""
    import weights
    from measure import telling_probes
    from rows import read_rows

    base, output = Path(job.base), Path(job.output)

    with progress.phase("load"):
        seed_everything(job)
        row_set = read_rows(Path(job.rows), vocabulary(base), job.max_length)

    trained, peak = train(job, row_set.rows, progress)

    with progress.phase("verify"):
        copied = weights.copy_companions(base, output)
        tensors = weights.compare(base, output)
        before, after = (measure(folder, job, row_set.rows, measuring) for folder in (base, output))
        if not math.isfinite(after.loss):
            raise Refusal("the saved weights give no finite loss; lower hyper.learning_rate")

    facts = {
        "base": job.base,
        "profile": job.profile,
        "seed": job.seed,
        "hyper": vars(job.hyper),
        "max_length": job.max_length,
        "rows": len(row_set.rows),
        "dropped": row_set.dropped,
        **trained,
        "loss_before": before.loss,
        "loss_after": after.loss,
        "loss_rows": before.rows,
        "measured_in": job.quantization,
        "tensors": tensors,
        "copied": copied,
        "versions": versions(job.profile),
        "seconds": progress.seconds,
    }
    if job.profile == "cuda":
        facts["gpu_peak_bytes"] = max(peak, before.gpu_peak_bytes, after.gpu_peak_bytes)
    weights.write_manifest(output, facts)
    return {**facts, "probes": telling_probes(before, after)}


def train(job: Job, rows: list, progress: Progress) -> tuple[dict[str, object], int]:
    """Trains and saves the merged weights; what it used of the device is free when it returns."""
    import torch

    from lora_adapter import save_adapter
    from merge_proof import learned, prove_merge
    from proving_trainer import Reporter, make_trainer

    backend = importlib.import_module(BACKENDS[job.profile])
    reporter = Reporter(progress)
    with progress.phase("train"), tempfile.TemporaryDirectory(prefix="agl-trainer-") as scratch:
        model, tokenizer = backend.load(job)
        trainer = make_trainer(job, model, tokenizer, rows, reporter, scratch, backend.TRAINER_ARGUMENTS)
        steps = trainer.train().global_step
    with progress.phase("merge"):
        base, output = Path(job.base), Path(job.output)
        output.mkdir(parents=True, exist_ok=True)
        deltas = learned(model)
        adapter = {"adapter": save_adapter(model, deltas, base, output)} if job.keep_adapter else {}
        backend.merge_and_save(model, tokenizer, base, output)
        merged = prove_merge(deltas, base, output)
    facts = {
        "steps": steps,
        "training_loss": {"first": reporter.losses[0], "last": reporter.losses[-1]},
        "labels": trainer.proven,
        "merged": merged,
        **adapter,
    }
    if job.profile == "cpu":
        return facts, 0
    peak = torch.cuda.max_memory_allocated()
    del model, trainer
    gc.collect()
    torch.cuda.empty_cache()
    return facts, peak


def measure(folder: Path, job: Job, rows: list, measuring):
    """In a process of its own where there is one."""
    if measuring is not None:
        return measuring.measure(folder, Path(job.rows), job.max_length, job.profile, job.quantization)
    from measure import measure as measure_here

    return measure_here(folder, rows, job.profile)


def vocabulary(base: Path) -> int:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(base, local_files_only=True).get_text_config().vocab_size


def seed_everything(job: Job) -> None:
    import torch
    from transformers import set_seed

    torch.set_num_threads(job.threads)
    set_seed(job.seed)


def import_libraries(profile: str):
    """The backend comes first: Unsloth patches what the others import, so beside it another process measures."""
    measuring = None
    if profile == "cuda":
        from measure import MeasuringProcess

        measuring = MeasuringProcess()
    importlib.import_module(BACKENDS[profile])
    importlib.import_module("proving_trainer")
    if profile == "cuda":
        from no_cuda_context import has_cuda_context

        if has_cuda_context():
            print("warning: the imports took memory of the GPU before there was a job", file=sys.stderr)
    return measuring


def versions(profile: str) -> dict[str, str]:
    from importlib.metadata import version

    names = ["torch", "transformers", "trl", "peft"] + (["unsloth"] if profile == "cuda" else [])
    return {name: version(name) for name in names}


def report(progress: Progress | None, message: str, **fields: object) -> None:
    print(f"error: {message}", file=sys.stderr)
    if progress is not None:
        progress.error(message, **fields)


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
