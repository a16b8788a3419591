"""Triton forms of units, as far as they can be checked without Triton: text, dispatch, errors."""

import ast
from pathlib import Path

import pytest
import torch
from fused.unit_forms import unit_forms

import gatewise as gw
from gatewise.errors import ArgumentError, MissingExtraError
from gatewise.fused import dispatch, gpu, start_recording, stop_recording
from gatewise.fused.gpu import building, kernel_source, launching
from gatewise.fused.tracing import trace

FORMS = unit_forms()


def test_the_catalogue_has_forms():
    assert len(FORMS) >= 17 and {"silu._plain", "iieu_b._plain", "pau._plain_a"} <= FORMS.keys()


@pytest.mark.parametrize("name", FORMS)
def test_every_unit_has_the_text_of_three_kernels(name: str):
    plain, numbers = FORMS[name]
    texts = kernel_source.kernel_texts(trace(plain, numbers), numbers)
    assert set(texts) == {"values", "slopes", "terms"}
    for text in texts.values():
        ((function,)) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        known = {each.arg for each in function.args.args} | {"tl", "float"}
        known |= {"tile", "read", "read_number", "write", "write_sums"} | _device_functions()
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                known.add(node.id)
        used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        assert used <= known, used - known


def _device_functions() -> set[str]:
    path = Path(building.__file__).with_name("device_functions.py")
    body = ast.parse(path.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_c_function_has_a_function_for_triton():
    from gatewise.fused import source

    special = {"exp_of_negative", "expm1_of_negative", "log1p_of_unit"}
    assert {*source._CALLS.values(), *special} <= _device_functions()


def test_without_triton_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(building, "has_triton", lambda: False)
    building.kernels_of.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install .*triton"):
        gpu.device_code(*FORMS["silu._plain"], "sm_80")


def test_without_triton_tensors_on_a_gpu_take_the_plain_form(monkeypatch: pytest.MonkeyPatch):
    x = torch.randn(3, 4, requires_grad=True)
    monkeypatch.setattr(dispatch, "is_on_gpu", lambda x: True)
    monkeypatch.setattr(launching, "has_triton", lambda: False)
    launching._checked_kernel.cache_clear()
    recording = start_recording()
    y = gw.functional.silu(x)
    assert stop_recording(recording) == "plain"
    y.sum().backward()
    assert x.grad is not None
    launching._checked_kernel.cache_clear()


def test_wrong_targets_and_dtypes_are_errors():
    with pytest.raises(ArgumentError, match="sm_80, sm_90, gfx90a, gfx942"):
        gpu.device_code(*FORMS["silu._plain"], "sm_1")
    with pytest.raises(ArgumentError, match="float64"):
        gpu.device_code(*FORMS["silu._plain"], "sm_80", torch.float64)
