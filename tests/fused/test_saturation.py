"""Bounds and masks that generated code leaves out change no value."""

import pytest
import torch
from torch import Tensor

import gatewise as gw
from gatewise.fused import kernels, source
from gatewise.fused.saturation import without_bounds
from gatewise.fused.tracing import trace
from gatewise.native import library
from gatewise.testing import every_16_bit_value

from .unit_forms import unit_forms

pytestmark = pytest.mark.skipif(library("elementwise").handle is None, reason="no compiled code")
BOUND = torch.finfo(torch.float32).max * 2.0**-40
QUICK = ("silu._plain", "gelu._plain", "swiglu._plain", "tanh._plain")
NUMBERS = (0.7, 1.3, -0.4, 0.2)


def inputs() -> Tensor:
    """Every float16 number and all kinds of float32 numbers beyond, on both sides of the bound."""
    bound = torch.tensor(BOUND)
    near = [bound, torch.nextafter(bound, 2 * bound), torch.nextafter(bound, bound / 2)]
    large = torch.logspace(4, 38, 500)
    edges = torch.stack([*near, torch.tensor(torch.finfo(torch.float32).max)])
    x = torch.cat([every_16_bit_value(torch.float16).float(), large, -large, edges, -edges])
    return torch.cat([x, torch.tensor([torch.inf, -torch.inf, torch.nan])])


def both(name: str, monkeypatch: pytest.MonkeyPatch) -> list[kernels.Kernel]:
    """The generated function as it is, and with all bounds."""
    plain, count = unit_forms()[name]
    found = []
    for keeps in (False, True):
        if keeps:
            monkeypatch.setattr(source, "without_bounds", lambda *results: list(results))
        text = source.source_text(trace(plain, count), count)
        handle = kernels.compiled(f"bounds-{name.replace('.', '-')}-{keeps}", text).handle
        assert handle is not None
        found.append(kernels.Kernel(handle, count))
    return found


def check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, whole = both(name, monkeypatch)
    x = inputs()
    numbers = [NUMBERS[k % len(NUMBERS)] for k in range(ours.numbers)]
    above = torch.full_like(x, 0.75)
    wanted = [False] * len(numbers)
    values = [kernel.values(x, numbers) for kernel in (ours, whole)]
    slopes = [kernel.slopes(x, numbers, above, wanted)[0] for kernel in (ours, whole)]
    for one, other in (values, slopes):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in QUICK if name in unit_forms()])
def test_some_units_have_the_same_values_with_and_without(name, monkeypatch):
    check(name, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(unit_forms()))
def test_all_units_have_the_same_values_with_and_without(name, monkeypatch):
    check(name, monkeypatch)


def test_silu_has_no_bound_and_one_mask():
    plain, count = unit_forms()["silu._plain"]
    values, slopes, _ = source.loops_of(trace(plain, count), count)
    order = source.in_order(*values.results)
    bounds = [each for each in order if each.operation in ("lt", "gt")]
    assert bounds == []
    masks = [each for each in source.in_order(*slopes.results) if each.operation in ("lt", "gt")]
    assert [each.operation for each in masks] == ["gt"]


def test_a_bound_stays_where_a_number_could_make_it_matter():
    # With beta = 0 an infinite input would give NaN without its bound.
    plain, count = unit_forms()["swish._plain"]
    values, *_ = source.loops_of(trace(plain, count), count)
    operations = [each.operation for each in source.in_order(*values.results)]
    assert "lt" in operations and "gt" in operations


ONE = torch.ones_like
NONE = torch.zeros_like
EDGES = {
    "an empty range": lambda x: torch.where(x.clamp(0, 0) > 0, ONE(x), 2 * ONE(x)),
    "a reversed range": lambda x: torch.exp(-(x.clamp(200, -200) ** 2)),
    "a square that underflows": lambda x: torch.where(
        x.clamp(-1e-30, 1e-30) ** 2 > 0, ONE(x), NONE(x)
    ),
    "beyond infinity": lambda x: torch.where(
        x.abs() > torch.inf, NONE(x), torch.where(x.abs() == torch.inf, NONE(x), x)
    ),
}


@pytest.mark.parametrize("name", EDGES)
def test_bounds_that_matter_stay(name):
    x = torch.tensor([-torch.inf, -2.0, -0.5, 0.0, 0.5, 2.0, torch.inf])
    torch.testing.assert_close(gw.fuse(EDGES[name])(x), EDGES[name](x))


def test_a_mask_stays_where_another_input_may_be_no_number():
    def masked(x: Tensor, y: Tensor) -> Tensor:
        inner = torch.where(x.abs() > 4, NONE(x), x * x) * torch.tanh(y)
        return torch.where(x > 5, NONE(x), inner)

    x, y = torch.tensor([7.0, 3.0, 7.0]), torch.tensor([torch.nan, 0.5, 0.5])
    torch.testing.assert_close(gw.fuse(masked)(x, y), masked(x, y))


def test_a_bound_within_the_range_of_the_function_stays():
    def narrow(x: Tensor) -> Tensor:
        return torch.tanh(x.clamp(-2.0, 2.0))

    result = trace(narrow, 0)
    assert without_bounds(result) == [result]
