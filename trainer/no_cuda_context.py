"""Importing Unsloth without taking memory of the GPU, which the model server still uses while we import."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# As Unsloth's import would set it, which comes too late here: torch reads it when it is loaded.
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import torch

from environment import environment

ASKS_FOR_STREAM = "_cuda_getCurrentRawStream"


@contextmanager
def no_cuda_context() -> Iterator[None]:
    """Unsloth's import runs something on the GPU twice, each of which makes a context of 0.5 to 0.7 GB.

    It tries which kernel mixtures of experts can use, unless told: it chooses anew when a model is loaded. And it looks
    up the current stream, always the default one, 0; whoever kept the function that answers so gets the real one back.
    With both, nvidia-smi showed 4 MiB in use after the imports.
    """
    real = getattr(torch._C, ASKS_FOR_STREAM, None)
    if real is None:
        yield
        return

    def default_stream(_device: int) -> int:
        return 0

    setattr(torch._C, ASKS_FOR_STREAM, default_stream)
    try:
        with environment("UNSLOTH_MOE_BACKEND", "native_torch"):
            yield
    finally:
        for module in [torch._C, *sys.modules.values()]:
            members = getattr(module, "__dict__", {})
            for name in [name for name, value in list(members.items()) if value is default_stream]:
                setattr(module, name, real)


def has_cuda_context() -> bool:
    return torch.cuda.is_initialized() and torch._C._cuda_hasPrimaryContext(0)
