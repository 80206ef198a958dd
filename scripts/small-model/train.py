"""Trains the small model from nothing: first on right conversations only, then on conversations of mixed quality."""

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy
import torch
import torch.nn.functional as functional
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

from dataset import endless_batches, join, make_dataset

Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    steps: int = 6000
    # When these are over sooner, the schedule has shrunk to fit, and the result depends on the machine's speed.
    minutes: float = 10.0
    batch: int = 192
    mixed_conversations: int = 300_000
    right_conversations: int = 180_000
    # Part of the training that comes first and sees only right conversations.
    right_part: float = 0.3
    learning_rate: float = 1.5e-3
    warmup_steps: int = 200
    weight_decay: float = 0.05
    # Weight of the tokens that the model does not write.
    prompt_weight: float = 0.1
    report_every: int = 250


@dataclass(frozen=True)
class Trained:
    steps: int
    minutes: float
    # Means over the last steps reported together.
    answer_loss: float
    prompt_loss: float


@dataclass(frozen=True)
class Batch:
    ids: torch.Tensor
    answer: torch.Tensor
    # False where a shorter conversation is filled up.
    used: torch.Tensor


class TrainingData:
    """All conversations, 106 million tokens at full size, and the two kinds of batches drawn from them.

    Made before CUDA is in use, since making it forks; `to` then moves everything to the device at once.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerFast, plan: Plan, seed: int) -> None:
        mixed = make_dataset(tokenizer, plan.mixed_conversations, seed=3 * seed + 1)
        right = make_dataset(tokenizer, plan.right_conversations, seed=3 * seed + 2, only_right=True)
        data = join([mixed, right])
        generator = numpy.random.default_rng(seed)
        members = {"mixed": numpy.arange(len(mixed)), "right": len(mixed) + numpy.arange(len(right))}
        self.order = {kind: endless_batches(generator, own, data.lengths, plan.batch) for kind, own in members.items()}
        self.padding = tokenizer.pad_token_id
        self.lengths, self.starts = data.lengths, data.starts
        self.ids = torch.from_numpy(data.ids.astype(numpy.int16))
        self.answer = torch.from_numpy(data.answer)

    def to(self, device: torch.device) -> "TrainingData":
        self.ids, self.answer = self.ids.to(device), self.answer.to(device)
        return self

    def next(self, kind: str) -> Batch:
        chosen = next(self.order[kind])
        longest = -(-int(self.lengths[chosen].max()) // 16) * 16
        device = self.ids.device
        starts = torch.from_numpy(self.starts[chosen]).to(device)
        lengths = torch.from_numpy(self.lengths[chosen]).to(device)
        places = torch.arange(longest, device=device)[None]
        used = places < lengths[:, None]
        indices = (starts[:, None] + places).clamp_(max=len(self.ids) - 1)
        return Batch(
            ids=torch.where(used, self.ids[indices].long(), self.padding),
            answer=self.answer[indices] & used,
            used=used,
        )


def train(
    model: Qwen3ForCausalLM,
    data: TrainingData,
    plan: Plan,
    say: Say = print,
    clock: Callable[[], float] = time.monotonic,
) -> Trained:
    data.to(model.device)
    model.train()
    optimizer = make_optimizer(model, plan)
    recent = Recent(model.device)
    started = clock()
    step = 0
    while True:
        minutes = (clock() - started) / 60
        progress = max(step / plan.steps, minutes / plan.minutes)
        if progress >= 1:
            break
        kind = "right" if progress < plan.right_part else "mixed"
        set_learning_rate(optimizer, learning_rate(plan, step, progress))
        recent.add(*training_step(model, optimizer, data.next(kind), plan))
        step += 1
        if step % plan.report_every == 0:
            recent.close()
            say(f"step {step} ({kind}): answer loss {recent.answer:.4f}, prompt loss {recent.prompt:.3f}")
    if recent.count > 0:
        recent.close()
    model.eval()
    return Trained(step, round((clock() - started) / 60, 2), round(recent.answer, 4), round(recent.prompt, 4))


def learning_rate(plan: Plan, step: int, progress: float) -> float:
    """A short rise, then half a cosine down to a fiftieth."""
    rise = min(1, (step + 1) / plan.warmup_steps)
    return plan.learning_rate * rise * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def make_optimizer(model: Qwen3ForCausalLM, plan: Plan) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in model.parameters() if parameter.ndim > 1]
    norms = [parameter for parameter in model.parameters() if parameter.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": norms, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=plan.learning_rate, betas=(0.9, 0.95), fused=model.device.type == "cuda" or None
    )


def training_step(
    model: Qwen3ForCausalLM, optimizer: torch.optim.Optimizer, batch: Batch, plan: Plan
) -> tuple[torch.Tensor, torch.Tensor]:
    """One update; returns the loss of the answers' tokens and that of the others."""
    losses = token_losses(model, batch)
    answer = batch.answer[:, 1:]
    prompt = batch.used[:, 1:] & ~answer
    weights = answer + plan.prompt_weight * prompt
    optimizer.zero_grad(set_to_none=True)
    weighted_mean(losses, weights).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return weighted_mean(losses.detach(), answer), weighted_mean(losses.detach(), prompt)


def weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return (values * weights).sum() / weights.sum()


def token_losses(model: Qwen3ForCausalLM, batch: Batch) -> torch.Tensor:
    """Filling lies on the right, where a causal model does not look: no mask is needed."""
    with mixed_precision(model.device):
        logits = model(input_ids=batch.ids, use_cache=False).logits
    wanted = batch.ids[:, 1:]
    flat = functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), wanted.flatten(), reduction="none")
    return flat.view(wanted.shape)


def mixed_precision(device: torch.device) -> contextlib.AbstractContextManager[object]:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else contextlib.nullcontext()


class Recent:
    """Mean losses since the last report, summed on the device so that no step waits for them."""

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(2, device=device)
        self.count = 0
        self.answer = self.prompt = math.nan

    def add(self, answer: torch.Tensor, prompt: torch.Tensor) -> None:
        self.sums += torch.stack([answer, prompt])
        self.count += 1

    def close(self) -> None:
        self.answer, self.prompt = (self.sums / self.count).tolist()
        self.sums.zero_()
        self.count = 0
