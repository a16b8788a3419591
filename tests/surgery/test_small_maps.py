"""Convolutions of small maps, computed as products, are torch's own.

Values, gradients and what they keep.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from gatewise.surgery.proof import small_maps
from gatewise.surgery.proof.running import run_backwards
from gatewise.surgery.proof.small_maps import FEW, SmallMaps

# Sums of at most 4 * 9 products of numbers near 1, in another order: 36 roundings of 1e-16 each,
# with a wide margin.
MOST = 1e-13
CASES = [
    {},
    {"stride": 2, "padding": 1},
    {"stride": (1, 2), "padding": (2, 0)},
    {"dilation": 2, "padding": 1},
    {"dilation": (1, 2), "padding": [0, 1], "stride": [2, 1]},
]


def tensors(batch: int = 2, side: int = 5, bias: bool = True) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch, 4, side, side), (6, 4, 3, 2), (6,)][: 3 if bias else 2]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the weights that products were taken with."""
    seen: list[tuple[int, ...]] = []
    patches = small_maps._patches
    monkeypatch.setattr(
        small_maps,
        "_patches",
        lambda x, window: (seen.append(tuple(x.shape)), patches(x, window))[1],
    )
    return seen


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("options", CASES)
def test_values_and_gradients_are_those_of_torch(options: dict, bias: bool, products: list):
    inputs = tensors(bias=bias, batch=1)
    theirs = F.conv2d(*inputs, **options)
    with SmallMaps():
        mine = F.conv2d(*inputs, **options)
    assert len(products) == 1 and mine.shape == theirs.shape and mine.is_contiguous()
    torch.testing.assert_close(mine, theirs, rtol=0, atol=MOST)
    weights = torch.randn_like(theirs)
    for a, b in zip(
        *(torch.autograd.grad((y * weights).sum(), inputs) for y in (mine, theirs)), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=MOST)


def test_only_what_needs_a_gradient_is_computed():
    x, weight, bias = tensors(batch=1)
    with SmallMaps():
        y = F.conv2d(x.detach(), weight, bias)
    (gradient,) = torch.autograd.grad(y.sum(), weight)
    torch.testing.assert_close(
        gradient, torch.autograd.grad(F.conv2d(x, weight).sum(), weight)[0], rtol=0, atol=MOST
    )


@pytest.mark.parametrize(
    ("batch", "side", "options", "taken"),
    [
        (1, 5, {}, True),  # 3 x 4 positions
        (2, 5, {}, True),
        (3, 5, {}, False),  # 36, more than few
        (1, 5, {"padding": "valid"}, False),
        (1, 5, {"groups": 2}, False),
        (0, 5, {}, False),
    ],
)
def test_the_rest_is_left_to_torch(
    batch: int, side: int, options: dict, taken: bool, products: list
):
    assert FEW == 32
    x, weight, _ = tensors(batch, side)
    weight = weight[:, : 4 // options.get("groups", 1)]
    with SmallMaps():
        mine = F.conv2d(x, weight, **options)
    assert bool(products) is taken
    torch.testing.assert_close(mine, F.conv2d(x, weight, **options), rtol=0, atol=MOST)


def test_errors_are_torchs_own():
    x, weight, _ = tensors(1, 5)
    for wrong in ((x[:, :3], weight), (x[..., :2, :2], weight)):
        with SmallMaps(), pytest.raises(RuntimeError, match=r"channels|Kernel size"):
            F.conv2d(*wrong)


def test_as_much_is_kept_for_the_backward_pass():
    x, weight, bias = tensors(1)

    def kept() -> int:
        state = {"x": x, "weight": weight, "bias": bias}
        return run_backwards(lambda: (F.conv2d(torch.sin(x), weight, bias),), state).saved

    plain = kept()
    with SmallMaps():
        assert kept() == plain > 0
