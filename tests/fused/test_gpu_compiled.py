"""Triton forms of all elementwise units, compiled for GPUs of two makers without a GPU."""

import re

import pytest
import torch
from fused.unit_forms import unit_forms

from gatewise.fused.gpu import TARGETS, device_code

pytestmark = pytest.mark.triton
FORMS = unit_forms()
# An approximate function, a division with an error of 2 units, or numbers below 1e-38 taken as 0.
INEXACT = re.compile(r"\b\w+\.(?:[\w.]+\.)?(?:approx|full|ftz)\b[\w.]*")
# A product that the assembler may fuse with a sum.
UNFUSED = re.compile(r"\bfma\.rn\.f32\b")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMS)
def test_every_unit_is_compiled(name: str, target: str):
    built = device_code(*FORMS[name], target)
    assert set(built) == {"values", "slopes", "terms"}
    for kernel, code in built.items():
        if target.startswith("sm_"):
            assert isinstance(code, str)
            assert f".target {target}" in code and f".visible .entry {kernel}(" in code
            assert not INEXACT.findall(code)
        else:
            assert isinstance(code, bytes)
            assert code.startswith(b"\x7fELF") and target.encode() in code


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("target", TARGETS)
def test_half_types_are_compiled(target: str, dtype: torch.dtype):
    built = device_code(*FORMS["acon_c.smooth_maximum"], target, dtype)
    assert all(built.values())


def test_products_and_sums_are_fused_only_where_the_source_says_so():
    code = device_code(*FORMS["prelu._plain"], "sm_80")["values"]
    assert isinstance(code, str) and not UNFUSED.findall(code)
    code = device_code(*FORMS["silu._plain"], "sm_80")["values"]
    assert isinstance(code, str) and UNFUSED.findall(code)
