"""The precision "auto": bfloat16 where the device has instructions for it, else float32."""

import torch

from gatewise import devices
from gatewise.train import in_precision, resolve_precision

CPU = torch.device("cpu")


def with_flags(monkeypatch, flags):
    monkeypatch.setattr(devices, "_processor_facts", lambda: {"flags": flags})
    devices.bfloat16_kills.cache_clear()


def computed_type(precision):
    with in_precision(precision, CPU):
        return torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2)).dtype


def test_auto_is_bfloat16_where_the_processor_has_its_instructions(monkeypatch):
    with_flags(monkeypatch, "avx2 avx512f avx512_bf16")
    assert resolve_precision("auto", CPU) == "bfloat16"
    assert computed_type("auto") == torch.bfloat16


def test_auto_is_float32_on_other_processors(monkeypatch):
    with_flags(monkeypatch, "avx2 avx512f")
    assert resolve_precision("auto", CPU) == "float32"
    assert computed_type("auto") == torch.float32


def test_a_precision_that_is_named_is_taken_anywhere(monkeypatch):
    with_flags(monkeypatch, "avx2")
    assert resolve_precision("bfloat16", CPU) == "bfloat16"
    assert computed_type("bfloat16") == torch.bfloat16
