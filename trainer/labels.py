"""Proof, on the first batch the training library really forms, that it trains on our labels and nothing else."""

import itertools

import torch

from loss import token_losses, trainable
from progress import Refusal
from rows import IGNORED, Row

# The library computes the batch in another shape than we do, row by row: rounding differs, most in 16-bit types.
TOLERANCE = {torch.float32: 1e-3}
TOLERANCE_OF_16_BITS = 2e-2


class LabelProof:
    """Compares the library's batch and loss with the rows it was given."""

    def __init__(self, rows: list[Row]) -> None:
        self._rows: dict[tuple[int, ...], list[Row]] = {}
        for row in rows:
            self._rows.setdefault(tuple(row.input_ids), []).append(row)

    def check(self, model, batch: dict, library_loss: float) -> dict[str, object]:
        """Returns the losses compared; refuses when the batch or the loss is not that of our rows."""
        rows = [self._row_of(ids, labels) for ids, labels in sequences(batch)]
        masked, unmasked = losses(model, rows)
        facts = {
            "rows": len(rows),
            "trainable_tokens": sum(label != IGNORED for row in rows for label in row.labels[1:]),
            "loss": round(library_loss, 6),
            "masked_loss": round(masked, 6),
            "unmasked_loss": round(unmasked, 6),
        }
        tolerance = tolerance_for(model) * max(1.0, masked)
        if not abs(library_loss - masked) <= tolerance:
            raise Refusal(
                f"labels are not honoured: the first batch's loss is {library_loss:.6f}, over its labels it is "
                f"{masked:.6f} and over every token {unmasked:.6f}"
            )
        telling = abs(masked - unmasked) > tolerance
        if telling and abs(library_loss - unmasked) < abs(library_loss - masked):
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


def losses(model, rows: list[Row]) -> tuple[float, float]:
    """Mean over the trainable tokens and over all, from one forward pass a row: no padding, so no shape matters."""
    every = [token_losses(model, row.input_ids).cpu().double() for row in rows]
    kept = [some[trainable(row)] for some, row in zip(every, rows, strict=True)]
    return torch.cat(kept).mean().item(), torch.cat(every).mean().item()


def tolerance_for(model) -> float:
    """Adapters may be float32 above a base of fewer bits, so the least exact of all parameters counts."""
    types = {parameter.dtype for parameter in model.parameters()}
    return max(TOLERANCE.get(dtype, TOLERANCE_OF_16_BITS) for dtype in types)


def sequences(batch: dict) -> list[tuple[list[int], list[int]]]:
    """(input_ids, labels) of each row in a batch, whether it was padded or packed end to end."""
    ids, labels = batch["input_ids"], batch["labels"]
    lengths, mask = packed_lengths(batch), batch.get("attention_mask")
    if lengths is not None:
        return unpack(ids.flatten().tolist(), labels.flatten().tolist(), lengths)
    if mask is not None:
        return [(i[m.bool()].tolist(), t[m.bool()].tolist()) for i, t, m in zip(ids, labels, mask, strict=True)]
    return [(i.tolist(), t.tolist()) for i, t in zip(ids, labels, strict=True)]


def packed_lengths(batch: dict) -> list[int] | None:
    """Lengths of the rows in a padding-free batch: Unsloth says them, TRL restarts the positions."""
    if batch.get("packed_seq_lengths") is not None:
        return torch.as_tensor(batch["packed_seq_lengths"]).flatten().tolist()
    positions = batch.get("position_ids")
    if positions is None or batch.get("attention_mask") is not None:
        return None
    flat = positions.flatten()
    starts = [*(flat == 0).nonzero().flatten().tolist(), flat.numel()]
    return [end - start for start, end in itertools.pairwise(starts)]


def unpack(ids: list[int], labels: list[int], lengths: list[int]) -> list[tuple[list[int], list[int]]]:
    ends = list(itertools.accumulate(lengths))
    if any(label != IGNORED for label in labels[ends[-1] :]) or ends[-1] > len(ids):
        raise Refusal(f"the first batch holds {len(ids)} tokens, but its rows are said to have {ends[-1]}")
    return [(ids[end - length : end], labels[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
