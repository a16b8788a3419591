"""The width at which a gated network is as large as a plain one: by counting real networks."""

import pytest
from gatewise_papers.deep_gated import GatedLinear, matched_width
from loops import for_each
from torch import nn

from gatewise.errors import ArgumentError


def count(*layers: nn.Module) -> int:
    return sum(p.numel() for layer in layers for p in layer.parameters())


def plain(d_in: int, hidden: int, d_out: int, bias: bool) -> int:
    return count(nn.Linear(d_in, hidden, bias=bias), nn.Linear(hidden, d_out, bias=bias))


def gated(d_in: int, hidden: int, d_out: int, bias: bool, **gate) -> int:
    return count(GatedLinear(d_in, hidden, bias=bias, **gate), nn.Linear(hidden, d_out, bias=bias))


@for_each("hidden", [2, 3, 4, 100, 3072, 11008])
def test_without_biases_and_with_equal_ends_it_is_two_thirds(hidden: int):
    assert matched_width(64, hidden, bias=False) == 2 * hidden // 3


@for_each("bias", [True, False])
@for_each("sizes", [(1, 9, 1), (5, 17, 3), (2, 40, 31), (31, 40, 2), (8, 33, 8)])
@for_each("gate", [{}, {"gate": "prelu"}, {"gate": "acon_c"}, {"gate": "silu"}])
def test_it_is_the_widest_that_fits(sizes: tuple[int, int, int], bias: bool, gate: dict):
    d_in, hidden, d_out = sizes
    width = matched_width(d_in, hidden, d_out, bias=bias, **gate)
    budget = plain(d_in, hidden, d_out, bias)
    assert (
        gated(d_in, width, d_out, bias, **gate)
        <= budget
        < gated(d_in, width + 1, d_out, bias, **gate)
    )


def test_parameters_of_the_gate_count():
    assert (
        matched_width(1, 1000, 1, gate="acon_c", bias=False) == 2000 // 6
    )  # three per channel beside three weights
    assert matched_width(1, 1000, 1, bias=False) == 2000 // 3


@for_each("multiple_of", [8, 64, 256])
def test_a_multiple_stays_within_the_budget(multiple_of: int):
    width = matched_width(384, 1536, multiple_of=multiple_of)
    budget = plain(384, 1536, 384, True)
    assert width % multiple_of == 0
    assert gated(384, width, 384, True) <= budget < gated(384, width + multiple_of, 384, True)


def test_for_convolutions_channels_are_counted_once_per_kernel_position():
    width = matched_width(16 * 9, 64, 32 * 9)
    first, second = nn.Conv2d(16, 64, 3), nn.Conv2d(64, 32, 3)
    sizes = [
        2 * count(nn.Conv2d(16, h, 3)) + count(nn.Conv2d(h, 32, 3)) for h in (width, width + 1)
    ]
    assert sizes[0] <= count(first, second) < sizes[1]


@for_each(
    ("sizes", "options"),
    [((4, 1, 4), {}), ((64, 100, 64), {"multiple_of": 128}), ((64, 1, 64), {"bias": False})],
)
def test_too_small_a_budget_is_an_error(sizes: tuple[int, int, int], options: dict):
    with pytest.raises(ArgumentError, match="no gated network is this small"):
        matched_width(*sizes, **options)


@for_each("name", ["in_features", "hidden_features", "out_features", "multiple_of"])
@for_each("value", [0, -3, 2.5, True])
def test_what_is_not_a_size_is_refused(name: str, value):
    with pytest.raises(ArgumentError, match=name):
        matched_width(**{"in_features": 8, "hidden_features": 32, "out_features": 8, name: value})
