"""Our own loss, written without the training library, so that the library's can be held against it."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from rows import IGNORED, Row

MEASURED_ROWS = 64
PROBES = 8


def token_losses(model, input_ids: torch.Tensor, targets: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """Negative log-likelihood of each target given the tokens before it; zero where a target is IGNORED."""
    logits = model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits
    flat = F.cross_entropy(
        logits[:, :-1].float().flatten(0, 1), targets[:, 1:].flatten(), ignore_index=IGNORED, reduction="none"
    )
    return flat.view(targets.size(0), -1)


def pad(rows: Sequence[Row], device) -> dict[str, torch.Tensor]:
    """One right-padded batch; padding is neither attended to nor a target."""
    width = max(len(row.input_ids) for row in rows)
    batch = {
        "input_ids": torch.zeros((len(rows), width), dtype=torch.long),
        "targets": torch.full((len(rows), width), IGNORED),
        "attention_mask": torch.zeros((len(rows), width), dtype=torch.long),
    }
    for index, row in enumerate(rows):
        length = len(row.input_ids)
        batch["input_ids"][index, :length] = torch.tensor(row.input_ids)
        batch["targets"][index, :length] = torch.tensor(row.labels)
        batch["attention_mask"][index, :length] = 1
    return {name: tensor.to(device) for name, tensor in batch.items()}


@torch.no_grad()
def mean_loss(model, rows: Sequence[Row], batch_size: int = 16) -> float:
    """Mean over the trainable tokens of all rows; rows of one length go together, so little padding is computed."""
    was_training = model.training
    model.eval()
    ordered = sorted(rows, key=lambda row: len(row.input_ids))
    total, tokens = 0.0, 0
    for start in range(0, len(ordered), batch_size):
        batch = pad(ordered[start : start + batch_size], model.device)
        total += token_losses(model, **batch).sum().item()
        tokens += int((batch["targets"][:, 1:] != IGNORED).sum())
    model.train(was_training)
    return total / tokens


@torch.no_grad()
def log_probabilities(model, ids: list[int]) -> list[float]:
    """Of each token from the second on, given those before it."""
    batch = pad([Row(ids, ids, 0.0)], model.device)
    return [-round(loss, 5) for loss in token_losses(model, **batch)[0].tolist()]


def spread(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """At most `count` rows, evenly spread over all."""
    return rows[:: max(1, -(-len(rows) // count))]
