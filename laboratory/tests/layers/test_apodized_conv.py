"""Apodized convolution.

Windows that add up to 1, and a layer that is the plain convolution of apodized filters.
"""

import itertools

import numpy as np
import pytest
import torch
from gatewise_papers.maso import ApodizedConv1d, ApodizedConv2d, partition_deviation
from loops import for_each
from torch import nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal import orthogonal
from gatewise.testing import check_layer

WINDOWS = ("hann", "triangle", "gaussian", "box")
KERNELS_AND_STRIDES = [(k, s) for k in range(1, 9) for s in range(1, k + 1)]
DIVIDING = [(k, s) for k, s in KERNELS_AND_STRIDES if k % s == 0]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def laid_out(
    window: np.ndarray, stride: tuple[int, int], dilation: int = 1, copies: int = 12
) -> np.ndarray:
    """Copies of the window added up one by one on a canvas.

    What lies in the middle has all its neighbours.
    """
    reach = [dilation * (size - 1) + 1 for size in window.shape]
    canvas = np.zeros([reach[i] + stride[i] * (copies - 1) for i in range(2)])
    for row, column in itertools.product(range(copies), repeat=2):
        top, left = row * stride[0], column * stride[1]
        canvas[top : top + reach[0] : dilation, left : left + reach[1] : dilation] += window
    return canvas[reach[0] : -reach[0], reach[1] : -reach[1]]


def window_of(layer: nn.Module) -> np.ndarray:
    return layer.window[0, 0].double().numpy()


@for_each("window", WINDOWS)
@for_each(("kernel", "stride"), KERNELS_AND_STRIDES)
def test_copies_of_the_window_add_up_to_one_everywhere(kernel: int, stride: int, window: str):
    layer = ApodizedConv2d(1, 1, kernel, stride, window=window, dtype=torch.float64)
    middle = laid_out(window_of(layer), (stride, stride), copies=2 * kernel + 4)
    assert middle.size and np.abs(middle - 1).max() < 1e-14
    assert layer.partition_deviation() < 1e-14


def test_kernel_stride_and_dilation_may_differ_by_dimension():
    layer = ApodizedConv2d(1, 1, (6, 4), (3, 2), dtype=torch.float64)
    assert np.abs(laid_out(window_of(layer), (3, 2)) - 1).max() < 1e-14
    layer = ApodizedConv2d(1, 1, 6, 3, dilation=2, dtype=torch.float64)
    assert np.abs(laid_out(window_of(layer), (3, 3), dilation=2, copies=16) - 1).max() < 1e-14
    assert layer.partition_deviation() < 1e-14


@for_each(
    ("kernel", "stride", "dilation"),
    [(4, 2, 1), (6, 2, 1), (3, 1, 1), (5, 2, 1), (4, 3, 2), (4, 2, 2), (3, 4, 2)],
)
def test_the_deviation_is_what_adding_copies_up_shows(kernel: int, stride: int, dilation: int):
    window = torch.rand(kernel, kernel, dtype=torch.float64)
    middle = laid_out(window.numpy(), (stride, stride), dilation)
    assert partition_deviation(window, stride, dilation) == pytest.approx(
        np.abs(middle - 1).max(), rel=1e-12
    )


def test_a_window_that_is_spoilt_is_noticed():
    layer = ApodizedConv2d(1, 1, 4, 2)
    assert layer.partition_deviation() < 1e-6
    layer.window[0, 0, 1, 2] += 0.25
    assert layer.partition_deviation() == pytest.approx(0.25, abs=1e-6)


def test_windows_are_what_they_are_called():
    third = ApodizedConv2d(1, 1, 3).window[0, 0]
    torch.testing.assert_close(third, torch.outer(v := torch.tensor([1.0, 4.0, 1.0]) / 6, v))
    half = ApodizedConv1d(1, 1, 8, 4, window="hann", dtype=torch.float64).window[0, 0]
    places = torch.arange(8, dtype=torch.float64)
    torch.testing.assert_close(half, (1 - torch.cos(2 * np.pi * (places + 0.5) / 8)) / 2)
    ramp = ApodizedConv1d(1, 1, 4, 2, window="triangle").window[0, 0]
    torch.testing.assert_close(ramp, torch.tensor([0.25, 0.75, 0.75, 0.25]))
    box = ApodizedConv1d(1, 1, 6, 2, window="box").window[0, 0]
    torch.testing.assert_close(box, torch.full((6,), 1 / 3))
    bell = ApodizedConv1d(1, 1, 2, 1, window="gaussian").window[0, 0]
    torch.testing.assert_close(bell, torch.tensor([0.5, 0.5]))
    raw = torch.tensor(
        [np.exp(-2 * t * t) for t in (-0.75, -0.25, 0.25, 0.75)], dtype=torch.float32
    )
    bell = ApodizedConv1d(1, 1, 4, 2, window="gaussian").window[0, 0]
    torch.testing.assert_close(bell, raw / (raw + raw.roll(2)))


@for_each("window", WINDOWS)
@for_each(("kernel", "stride"), DIVIDING)
def test_an_input_is_the_sum_of_its_apodized_patches(kernel: int, stride: int, window: str):
    layer = ApodizedConv2d(2, 1, kernel, stride, window=window, dtype=torch.float64)
    size, edge = 3 * kernel, kernel - stride
    x = torch.randn(1, 2, size, size, dtype=torch.float64)
    patches = F.unfold(x, kernel, padding=edge, stride=stride).unflatten(1, (2, kernel * kernel))
    apodized = (patches * layer.window.flatten()[:, None]).flatten(1, 2)
    back = F.fold(apodized, (size, size), kernel, padding=edge, stride=stride)
    torch.testing.assert_close(back, x, rtol=1e-13, atol=1e-13)


@for_each("groups", [1, 2])
@for_each(("kernel", "stride", "padding"), [(3, 1, 1), (4, 2, 0), (4, 2, 2), (5, 2, 3), (3, 3, 0)])
def test_filtering_apodized_patches_is_convolving_with_apodized_filters(
    kernel, stride, padding, groups
):
    layer = ApodizedConv2d(4, 6, kernel, stride, padding, groups=groups, dtype=torch.float64)
    x = torch.randn(2, 4, 11, 10, dtype=torch.float64)
    patches = F.unfold(x, kernel, padding=padding, stride=stride).unflatten(
        1, (groups, 4 // groups, -1)
    )
    patches = patches * layer.window.flatten()[:, None]
    rows = layer.weight.flatten(2).unflatten(0, (groups, -1))
    want = torch.einsum("gock,ngckl->ngol", rows, patches).flatten(1, 2) + layer.bias[:, None]
    got = layer(x)
    torch.testing.assert_close(got.flatten(2), want, rtol=1e-12, atol=1e-12)


OPTIONS = [
    {},
    {"stride": 2, "padding": 1},
    {"padding": "same", "groups": 2, "bias": False},
    {"padding": 2, "dilation": 2, "padding_mode": "circular"},
    {"padding": 1, "padding_mode": "reflect", "window": "gaussian"},
]


@for_each("options", OPTIONS)
def test_the_deployed_convolution_gives_the_same_bits(options: dict):
    for layer, x, kind in (
        (ApodizedConv2d(4, 6, 3, **options), torch.randn(2, 4, 9, 8), nn.Conv2d),
        (ApodizedConv1d(4, 6, 3, **options), torch.randn(2, 4, 9), nn.Conv1d),
    ):
        plain = layer.eval().deploy()
        assert type(plain) is kind and not plain.training
        assert torch.equal(plain(x), layer(x))


def test_patches_that_do_not_overlap_need_no_apodization():
    layer, plain = ApodizedConv2d(3, 5, 4, 4), nn.Conv2d(3, 5, 4, 4)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(2, 3, 12, 12)
    assert torch.equal(layer.window, torch.ones(1, 1, 4, 4)) and torch.equal(layer(x), plain(x))


def test_coverage_shows_what_borders_lack():
    layer = ApodizedConv2d(1, 1, 4, 2, 2, dtype=torch.float64)
    torch.testing.assert_close(layer.coverage(8, 10), torch.ones(8, 10, dtype=torch.float64))
    bare = ApodizedConv2d(1, 1, 4, 2, window="triangle", dtype=torch.float64).coverage(8, 9)
    assert bare.shape == (8, 9)
    torch.testing.assert_close(bare[2:6, 2:6], torch.ones(4, 4, dtype=torch.float64))
    ramp = torch.tensor([0.25, 0.75, 1.0, 1.0, 1.0, 1.0, 0.75, 0.25], dtype=torch.float64)
    torch.testing.assert_close(
        bare, torch.outer(ramp, torch.cat((ramp, ramp.new_zeros(1))))
    )  # the last column: no patch
    around = ApodizedConv1d(
        1, 1, 3, padding=1, padding_mode="circular", dtype=torch.float64
    ).coverage(7)
    torch.testing.assert_close(around, torch.ones(7, dtype=torch.float64))
    assert not bare.requires_grad


def test_a_window_of_ones_own_is_made_a_partition_of_unity():
    given = torch.rand(4, 6, dtype=torch.float64)
    layer = ApodizedConv2d(1, 1, (4, 6), (2, 3), window=given, dtype=torch.float64)
    assert layer.partition_deviation() < 1e-14
    tiles = given[:2, :3] + given[2:, :3] + given[:2, 3:] + given[2:, 3:]
    torch.testing.assert_close(layer.window[0, 0], given / tiles.repeat(2, 2))


def test_the_output_starts_as_large_as_that_of_a_plain_convolution():
    x = torch.randn(8, 16, 20, 20)
    for kernel, stride in ((3, 1), (4, 2), (5, 1)):
        plain = nn.Conv2d(16, 64, kernel, stride, bias=False)(x).detach().std()
        ours = ApodizedConv2d(16, 64, kernel, stride, bias=False)(x).detach().std()
        assert float(ours / plain) == pytest.approx(1, abs=0.1)


def test_orthonormal_filters_and_apodization_go_together():
    layer = orthogonal(ApodizedConv2d(3, 8, 4, 2))
    rows = layer.weight.flatten(1)
    assert (rows @ rows.mT - torch.eye(8)).abs().max() < 1e-6
    x = torch.randn(1, 3, 10, 10)
    assert torch.equal(layer.deploy()(x), layer(x))


def test_the_printed_bound_of_the_whole_error_by_patch_errors_lacks_the_number_that_overlap():
    """(18): the square of a sum is at most the sum of squares if terms do not overlap."""
    kernel, stride, size = 4, 2, 12
    errors = torch.ones(1, kernel * kernel, 25, dtype=torch.float64)
    whole = F.fold(errors, (size, size), kernel, stride=stride).square().sum()
    assert whole > errors.square().sum()
    overlap = (kernel // stride) ** 2
    for _ in range(50):
        errors = torch.randn(1, kernel * kernel, 25, dtype=torch.float64)
        assert (
            F.fold(errors, (size, size), kernel, stride=stride).square().sum()
            <= overlap * errors.square().sum()
        )


def test_state_is_that_of_a_plain_convolution():
    layer, other = ApodizedConv2d(3, 5, 3), ApodizedConv2d(3, 5, 3)
    other.load_state_dict(nn.Conv2d(3, 5, 3).state_dict())
    assert set(layer.state_dict()) == {"weight", "bias"}
    assert "window='hann'" in repr(layer) and "kernel_size=(3, 3)" in repr(layer)


@pytest.mark.slow
def test_the_layers_keep_the_contract():
    check_layer(lambda: ApodizedConv2d(2, 2, 3, padding=1), (2, 2, 4, 3), ddp=True)
    check_layer(
        lambda: ApodizedConv1d(2, 2, 4, 2, groups=2, bias=False),
        (2, 2, 6),
        leave_out={"exports_to_onnx": "above"},
    )


@pytest.mark.slow
@for_each("options", OPTIONS[1:])
def test_options_keep_the_contract(options: dict):
    checks = (
        "state_survives",
        "finite_input_never_gives_nan",
        "batches_do_not_matter",
        "layout_does_not_matter",
        "channels_last_is_kept",
        "gradients_match_finite_differences",
        "exports",
        "autocast_keeps_the_input_dtype",
        "half_precision_layers_work",
        "works_on_the_meta_device",
    )
    out = (
        {"channels_last_is_kept": "torch's own padding loses it"}
        if "padding_mode" in options
        else {}
    )
    check_layer(
        lambda: ApodizedConv2d(2, 4, 3, **options), (2, 2, 6, 5), only=checks, leave_out=out
    )


@for_each(
    ("call", "match"),
    [
        (lambda: ApodizedConv2d(1, 1, 3, 4), "no patch"),
        (lambda: ApodizedConv2d(1, 1, 4, 2, dilation=2), "no patch"),
        (lambda: ApodizedConv2d(1, 1, 3, window="kaiser"), "window"),
        (lambda: ApodizedConv2d(1, 1, 3, window=torch.ones(3)), "window"),
        (lambda: ApodizedConv2d(1, 1, 3, window=-torch.ones(3, 3)), "window"),
        (
            lambda: ApodizedConv2d(1, 1, 2, window=torch.tensor([[1.0, float("inf")], [1, 1]])),
            "window",
        ),
        (lambda: ApodizedConv2d(1, 1, 2, 2, window=torch.tensor([[1.0, 0.0], [1, 1]])), "window"),
        (lambda: ApodizedConv2d(3, 4, 3, groups=2), "groups"),
        (lambda: ApodizedConv2d(3, 4, 3)(torch.ones(1, 2, 5, 5)), "channel"),
        (lambda: ApodizedConv2d(3, 4, 3)(torch.ones(3, 5)), "dimensions"),
        (lambda: partition_deviation(torch.ones(3, 3), 0), "stride"),
        (lambda: partition_deviation(torch.ones(3, 3), (1, 1, 1)), "stride"),
        (lambda: partition_deviation([1.0]), "window"),
    ],
)
def test_bad_options_and_inputs_get_our_error(call, match: str):
    with pytest.raises(ArgumentError, match=match):
        call()
