"""Fine-tunes a model on rows of token ids and saves the merged weights.

    python sft.py JOB.json
    python sft.py --prewarm [--profile cpu]     imports first, then reads the job file's name from stdin

Exit code 0 after a `result` line in the job's progress file, 1 after an `error` line.
"""

import argparse
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
    if options.prewarm:
        import_libraries(options.profile)
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
                import_libraries(job.profile)
        progress.result(run(job, progress))
        return 0
    except Refusal as refusal:
        report(progress, str(refusal))
    except MemoryError:
        report(progress, "out of memory; lower hyper.batch_size or max_length")
    except Exception as error:
        traceback.print_exc()
        report(progress, f"{type(error).__name__}: {first_line(error)}", traceback=traceback.format_exc())
    return 1


def run(job: Job, progress: Progress) -> dict[str, object]:
    import weights
    from loss import mean_loss, measured
    from proving_trainer import Reporter, make_trainer
    from rows import read_rows

    backend = importlib.import_module(BACKENDS[job.profile])
    base, output = Path(job.base), Path(job.output)

    with progress.phase("load"):
        seed_everything(job.seed)
        model, tokenizer = backend.load(job)
        row_set = read_rows(Path(job.rows), model.config.vocab_size, job.max_length)
        sample = measured(row_set.rows)
        loss_before = mean_loss(model, sample)

    with progress.phase("train"):
        reporter = Reporter(progress)
        with tempfile.TemporaryDirectory(prefix="agl-trainer-") as scratch:
            trainer = make_trainer(job, model, tokenizer, row_set.rows, reporter, scratch, backend.TRAINER_ARGUMENTS)
            steps = trainer.train().global_step

    with progress.phase("merge"):
        output.mkdir(parents=True, exist_ok=True)
        backend.merge_and_save(model, tokenizer, base, output)
        copied = weights.copy_companions(base, output)

    with progress.phase("verify"):
        tensors = weights.compare(base, output)
        loss_after = reloaded_loss(output, sample, model.device)
        if not math.isfinite(loss_after):
            raise Refusal("the saved weights give no finite loss; lower hyper.learning_rate")

    facts = {
        "base": job.base,
        "profile": job.profile,
        "seed": job.seed,
        "hyper": vars(job.hyper),
        "max_length": job.max_length,
        "rows": len(row_set.rows),
        "dropped": row_set.dropped,
        "steps": steps,
        "loss": {"before": round(loss_before, 6), "after": round(loss_after, 6), "rows": len(sample)},
        "training_loss": {"first": reporter.losses[0], "last": reporter.losses[-1]},
        "labels": trainer.proven,
        "tensors": tensors,
        "copied": copied,
        "versions": versions(job.profile),
        "seconds": progress.seconds,
    }
    weights.write_manifest(output, facts)
    return facts


def reloaded_loss(folder: Path, rows, device) -> float:
    """The loss of what was saved, from a fresh load: proof that the folder is a model, and the trained one."""
    import torch
    from transformers import AutoModelForCausalLM

    from loss import mean_loss

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return mean_loss(model.to(device), rows)


def import_libraries(profile: str) -> None:
    """The backend comes first: Unsloth patches what the others import."""
    importlib.import_module(BACKENDS[profile])
    importlib.import_module("proving_trainer")


def seed_everything(seed: int) -> None:
    from transformers import set_seed

    set_seed(seed)


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
