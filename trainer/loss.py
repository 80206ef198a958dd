"""Our own loss, written without the training library, so that the library's can be held against it."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F

from rows import IGNORED, Row

# Positions whose logits are float32 at once: with 150,000 words in the vocabulary, 0.6 GB.
CHUNK = 1024


@torch.no_grad()
def token_losses(model, ids: Sequence[int]) -> torch.Tensor:
    """Negative log-likelihood of each token from the second on, given those before it; one row, without padding."""
    row = torch.tensor([list(ids)], device=model.device)
    logits = model(input_ids=row, use_cache=False).logits[0, :-1]
    chunks = zip(logits.split(CHUNK), row[0, 1:].split(CHUNK), strict=True)
    return torch.cat([F.cross_entropy(some.float(), targets, reduction="none") for some, targets in chunks])


def trainable(row: Row) -> torch.Tensor:
    """Which of the tokens from the second on are targets."""
    return torch.tensor([label != IGNORED for label in row.labels[1:]])


def mean_loss(model, rows: Sequence[Row]) -> float:
    """Mean over the trainable tokens of all rows."""
    was_training = model.training
    model.eval()
    kept = torch.cat([token_losses(model, row.input_ids).cpu()[trainable(row)] for row in rows])
    model.train(was_training)
    return kept.double().mean().item()
