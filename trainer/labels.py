"""Proof, on the first batch the training library really forms, that it trains on our labels and nothing else."""

import itertools

import torch

from loss import mean_loss, pad, token_losses
from progress import Refusal
from rows import IGNORED, Row

TOLERANCE = 1e-3


class LabelProof:
    """Compares the library's batch and loss with the rows it was given."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            self._rows.setdefault(tuple(row.input_ids), []).append(row)

    def check(self, model, batch: dict, library_loss: float) -> dict[str, object]:
        """Returns the losses compared; refuses when the batch or the loss is not that of our rows."""
        rows = [self._row_of(ids, labels) for ids, labels in sequences(batch)]
        masked = mean_loss(model, rows)
        unmasked = self._unmasked(model, rows)
        facts = {
            "rows": len(rows),
            "trainable_tokens": sum(label != IGNORED for row in rows for label in row.labels[1:]),
            "loss": round(library_loss, 6),
            "masked_loss": round(masked, 6),
            "unmasked_loss": round(unmasked, 6),
        }
        tolerance = TOLERANCE * max(1.0, masked)
        if not abs(library_loss - masked) <= tolerance:
            raise Refusal(
                f"labels are not honoured: the first batch's loss is {library_loss:.6f}, over its labels it is "
                f"{masked:.6f} and over every token {unmasked:.6f}"
            )
        everything_trainable = all(label != IGNORED for row in rows for label in row.labels[1:])
        if not everything_trainable and abs(library_loss - unmasked) <= min(tolerance, abs(masked - unmasked) / 2):
            raise Refusal(f"labels are not honoured: the first batch's loss {library_loss:.6f} is that of every token")
        return facts

    def _row_of(self, ids: list[int], labels: list[int]) -> Row:
        candidates = self._rows.get(tuple(ids))
        if candidates is None:
            raise Refusal(f"the first batch holds a sequence of {len(ids)} tokens that is none of the rows")
        # The target of the first position is never predicted, and padding-free batches blank it.
        for row in candidates:
            if row.labels[1:] == labels[1:]:
                return row
        raise Refusal("labels are not honoured: the first batch's labels are not those of its rows")

    @torch.no_grad()
    def _unmasked(self, model, rows: list[Row]) -> float:
        model.eval()
        everything = pad([Row(row.input_ids, row.input_ids, row.reward) for row in rows], model.device)
        losses = token_losses(model, **everything)
        model.train()
        return losses.sum().item() / int((everything["targets"][:, 1:] != IGNORED).sum())


def sequences(batch: dict) -> list[tuple[list[int], list[int]]]:
    """(input_ids, labels) of each row in a batch, whether it was padded or packed end to end."""
    ids, labels, mask = batch["input_ids"], batch["labels"], batch.get("attention_mask")
    if mask is not None:
        return [(i[m.bool()].tolist(), t[m.bool()].tolist()) for i, t, m in zip(ids, labels, mask, strict=True)]
    if batch.get("packed_seq_lengths") is not None:
        lengths = batch["packed_seq_lengths"].tolist()
    elif batch.get("position_ids") is not None:
        starts = [*(batch["position_ids"][0] == 0).nonzero().flatten().tolist(), ids.size(1)]
        lengths = [end - start for start, end in itertools.pairwise(starts)]
    else:
        return [(i.tolist(), t.tolist()) for i, t in zip(ids, labels, strict=True)]
    pairs = zip(ids[0].split(lengths), labels[0].split(lengths), strict=True)
    return [(i.tolist(), t.tolist()) for i, t in pairs]
