"""What an import may not ask the GPU, and that it gets the real answers afterwards."""

import os
import sys
from types import ModuleType

import pytest
import torch

from no_cuda_context import ASKS_FOR_STREAM, no_cuda_context


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """Devices whose stream was really asked for: torch's CPU build has no such function."""
    devices: list[int] = []
    monkeypatch.setattr(torch._C, ASKS_FOR_STREAM, lambda device: devices.append(device) or 7, raising=False)
    monkeypatch.delenv("UNSLOTH_MOE_BACKEND", raising=False)
    return devices


def test_an_import_gets_the_default_stream_and_later_calls_the_real_one(asked, monkeypatch):
    module = ModuleType("imports_early")
    monkeypatch.setitem(sys.modules, "imports_early", module)
    with no_cuda_context():
        module.stream = getattr(torch._C, ASKS_FOR_STREAM)
        assert module.stream(0) == 0
        assert os.environ["UNSLOTH_MOE_BACKEND"] == "native_torch"
    assert asked == []
    assert module.stream(0) == getattr(torch._C, ASKS_FOR_STREAM)(1) == 7
    assert asked == [0, 1]
    assert "UNSLOTH_MOE_BACKEND" not in os.environ


def test_a_failed_import_leaves_nothing_behind(asked):
    with pytest.raises(ImportError), no_cuda_context():
        raise ImportError("unsloth")
    assert getattr(torch._C, ASKS_FOR_STREAM)(3) == 7
