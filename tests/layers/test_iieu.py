"""ConvIIEU and LinearIIEU.

Against patches cut out one by one, through every trap, folded, counted.
"""

import copy
import math
import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.iieu import ConvIIEU, Coupler, LinearIIEU
from gatewise.testing import check_layer
from gatewise.units.contract import patch_norm

EPS = 1e-8


def patches_of(x, conv):
    """Every patch as a column, (N, C_in, taps, L), by padding and then torch's unfold.

    Two dimensions only.
    """
    pads = conv._reversed_padding_repeated_twice if conv.padding != "valid" else [0, 0, 0, 0]
    x = F.pad(x, pads, mode="constant" if conv.padding_mode == "zeros" else conv.padding_mode)
    columns = F.unfold(x, conv.kernel_size, conv.dilation, 0, conv.stride)
    return columns.unflatten(1, (x.shape[1], -1))


def response_and_lengths(x, conv, scope):
    """The plain response and the lengths of patches and filters, each from its definition."""
    patches, responses, lengths = patches_of(x, conv), [], []
    inputs, outputs = conv.in_channels // conv.groups, conv.out_channels // conv.groups
    for c in range(conv.out_channels):
        first = c // outputs * inputs
        seen = patches[:, first : first + inputs].flatten(1, 2)
        responses.append(
            conv.weight[c].flatten() @ seen + (conv.bias[c] if conv.bias is not None else 0)
        )
        lengths.append((seen if scope == "group" else patches.flatten(1, 2)).norm(dim=1))
    filters = torch.stack([row.norm() for row in conv.weight])
    return torch.stack(responses, 1), torch.stack(lengths, 1), filters


def reference(x, layer):
    """The published formula on flattened positions, with a norm in evaluation mode.

    No code of ours but parameters.
    """
    conv, unit = layer.conv, layer.unit
    y, patch, filters = response_and_lengths(x, conv, unit.norm_scope)
    shape = conv(x).shape
    if layer.norm is not None:
        bn = layer.norm
        y = F.batch_norm(y, bn.running_mean, bn.running_var, bn.weight, bn.bias, False, 0.0, bn.eps)
    s = y / ((filters[:, None] + EPS) * (patch + math.sqrt(math.prod(conv.kernel_size)) * EPS))
    s = torch.where(
        patch == 0, 0.0, s
    )  # patches that lie in the padding: not defined, and 0 with us
    nu = torch.sigmoid(
        F.layer_norm(y.mean(2), (y.shape[1],), unit.shift.weight, unit.shift.bias, 1e-6)
    )
    eta = unit.eta[:, None]
    m = s + nu[:, :, None] - eta
    return torch.where(m < 0, eta * y * torch.exp(m.clamp(max=0)), (eta + m) * y).reshape(shape)


def shaken(layer):
    """Every parameter and statistic moved off its start, so that none can be left out unnoticed."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, value in [*layer.named_parameters(), *layer.named_buffers()]:
            if value.is_floating_point():
                value.add_(0.3 * torch.rand(value.shape, generator=generator, dtype=value.dtype))
            if name == "unit.eta":
                value.mul_(2)  # so that a fair part of the responses falls below it
    return layer


def random_conv(rng):
    groups = rng.choice([1, 1, 2, 3])
    kernel = (rng.randint(1, 4), rng.randint(1, 4))
    padding = rng.choice([0, (1, 2), 3, "same", "valid"])
    stride = 1 if padding == "same" else (rng.randint(1, 3), rng.randint(1, 3))
    dilation = (rng.randint(1, 2), rng.randint(1, 3))
    mode = rng.choice(["zeros", "zeros", "reflect", "replicate", "circular"])
    inputs, outputs = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    return nn.Conv2d(
        inputs,
        outputs,
        kernel,
        stride,
        padding,
        dilation,
        groups,
        rng.random() < 0.5,
        mode,
        dtype=torch.float64,
    )


@pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even kernel:UserWarning"
)  # torch's own copy
@pytest.mark.parametrize("seed", range(40))
def test_conv_iieu_is_the_formula_on_patches_cut_out_one_by_one(seed: int):
    rng = random.Random(seed)  # noqa: S311 - geometries, not secrets
    conv = random_conv(rng)
    norm = nn.BatchNorm2d(conv.out_channels, dtype=torch.float64) if seed % 2 else None
    layer = shaken(ConvIIEU(conv, norm, norm_scope=rng.choice(["all", "group"]))).eval()
    x = torch.randn(2, conv.in_channels, 12, 11, dtype=torch.float64)
    torch.testing.assert_close(layer(x), reference(x, layer), rtol=1e-12, atol=1e-12)


def test_both_branches_of_the_weight_are_reached_by_that_comparison():
    rng = random.Random(0)  # noqa: S311 - as above
    layer = shaken(ConvIIEU(random_conv(rng))).eval()
    terms = layer.terms(torch.randn(2, layer.conv.in_channels, 12, 11, dtype=torch.float64))
    below = terms.similarity + terms.shift[:, :, None, None] < terms.eta[:, None, None]
    assert 0.02 < below.double().mean() < 0.98


@pytest.mark.parametrize(("k", "s", "p"), [(1, 1, 0), (3, 1, 1), (3, 2, 1), (7, 2, 3), (1, 2, 0)])
def test_patch_lengths_are_those_of_the_published_way_by_average_pooling(k: int, s: int, p: int):
    x = torch.randn(2, 5, 15, 14, dtype=torch.float64)
    pooled = (F.avg_pool2d(x.norm(dim=1, keepdim=True).square(), k, s, p).sqrt() + EPS) * k
    got = patch_norm(x, nn.Conv2d(5, 2, k, s, p))
    torch.testing.assert_close(got, pooled, rtol=1e-14, atol=0)


def test_three_and_one_dimensional_patches_have_the_lengths_that_a_convolution_of_squares_gives():
    for conv, pool in (
        (nn.Conv1d(4, 2, 3, 2, 1, 2), F.conv1d),
        (nn.Conv3d(4, 2, (1, 2, 3), (2, 1, 1), (0, 1, 1), (1, 2, 1)), F.conv3d),
    ):
        x = torch.randn(2, 4, *[9] * (conv.weight.dim() - 2), dtype=torch.float64)
        ones = torch.ones(1, 4, *conv.kernel_size, dtype=torch.float64)
        total = pool(x.square(), ones, None, conv.stride, conv.padding, conv.dilation)
        want = total.sqrt() + EPS * math.sqrt(math.prod(conv.kernel_size))
        torch.testing.assert_close(patch_norm(x, conv), want, rtol=1e-14, atol=0)


def test_without_a_norm_the_similarity_is_the_cosine_of_patch_and_filter():
    conv = nn.Conv2d(3, 4, 3, bias=False, dtype=torch.float64)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64)
    similarity = ConvIIEU(conv).terms(x).similarity.flatten(2)
    patches = patches_of(x, conv).flatten(1, 2)
    cosine = F.cosine_similarity(patches[:, None], conv.weight.flatten(1)[None, :, :, None], dim=2)
    torch.testing.assert_close(similarity, cosine, rtol=1e-6, atol=1e-8)
    assert similarity.min() < 0  # not in [0, 1]


# ------------------------------------------------------------------------------------------------


def shift_by_torch(means, shift, kind, groups):
    weight, bias, channels = shift.weight, shift.bias, means.shape[1]
    made = {
        "layer": lambda: F.layer_norm(means, (channels,), weight, bias, 1e-6),
        "group": lambda: F.group_norm(means, groups, weight, bias, 1e-6),
        "batch": lambda: F.batch_norm(means, None, None, weight, bias, True, 0.0, 1e-6),
        "affine": lambda: means * weight + bias,
    }
    return torch.sigmoid(made[kind]())


@pytest.mark.parametrize(
    ("kind", "groups"),
    [("layer", None), ("group", 2), ("group", 4), ("group", 8), ("batch", None), ("affine", None)],
)
def test_each_variant_of_term_b_is_torchs_own_norm_of_the_means(kind: str, groups: int | None):
    layer = shaken(ConvIIEU(nn.Conv2d(3, 8, 3), term_b=kind, groups=groups).double()).train()
    x = torch.randn(4, 3, 6, 6, dtype=torch.float64)
    want = shift_by_torch(layer.response(x).mean((2, 3)), layer.unit.shift, kind, groups)
    torch.testing.assert_close(layer.terms(x).shift, want, rtol=1e-12, atol=1e-13)


def test_one_group_is_layer_norm_and_one_channel_per_group_leaves_the_bias_alone():
    x, conv = torch.randn(2, 3, 6, 6), nn.Conv2d(3, 8, 3)
    layer, one = ConvIIEU(conv), ConvIIEU(conv, term_b="group", groups=1)
    assert torch.equal(layer(x), one(x))
    alone = shaken(ConvIIEU(conv, term_b="group", groups=8))
    assert torch.equal(alone.terms(x).shift, torch.sigmoid(alone.unit.shift.bias).expand(2, 8))


def test_term_b_of_batch_norm_uses_running_statistics_in_evaluation():
    layer = ConvIIEU(nn.Conv2d(3, 4, 3), term_b="batch").double()
    x = torch.randn(8, 3, 6, 6, dtype=torch.float64)
    layer.train()(x)
    means = layer.response(x).mean((2, 3))
    norm = layer.unit.shift.norm
    torch.testing.assert_close(norm.running_mean, 0.1 * means.mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * means.var(0))
    alone, together = layer.eval()(x[:1]), layer(x)
    torch.testing.assert_close(alone, together[:1], rtol=1e-12, atol=1e-14)


def test_the_supplements_bound_on_the_gradient_of_term_b_holds_without_normalisation():
    conv = nn.Conv2d(3, 4, 1, bias=False, dtype=torch.float64)
    layer = shaken(ConvIIEU(conv, term_b="affine"))
    x = torch.randn(1, 3, 5, 5, dtype=torch.float64)
    for c, number in enumerate(layer.terms(x).shift[0]):
        (gradient,) = torch.autograd.grad(number, conv.weight, retain_graph=True)
        bound = layer.unit.shift.weight[c].abs() * x.mean((2, 3)).norm() / 4
        assert gradient.norm() <= bound
        assert gradient.norm() > 0.5 * bound


def test_the_gradient_of_the_similarity_is_equation_28():
    conv = nn.Conv2d(3, 1, 1, bias=False, dtype=torch.float64)
    x = torch.randn(1, 3, 1, 1, dtype=torch.float64)
    (got,) = torch.autograd.grad(ConvIIEU(conv).terms(x).similarity, conv.weight)
    w, p = conv.weight.flatten().detach(), x.flatten()
    want = (w @ w * p - w * (w @ p)) / (p.norm() * w.norm() ** 3)
    torch.testing.assert_close(
        got.flatten(), want, rtol=1e-6, atol=1e-8
    )  # eps is 1e-8 of lengths near 1


# ------------------------------------------------------------------------------------------------


def test_at_the_start_the_weight_is_one_half_plus_the_similarity():
    layer = ConvIIEU(nn.Conv2d(16, 32, 3))
    terms = layer.terms(torch.randn(4, 16, 9, 9))
    assert torch.equal(layer.unit.eta, torch.full((32,), 0.05))
    assert (terms.shift - 0.5).abs().max() < 0.01
    torch.testing.assert_close(terms.gate, 0.5 + terms.similarity, atol=0.01, rtol=0)


def test_an_empty_patch_has_similarity_0_where_dividing_by_eps_gives_millions():
    layer = shaken(ConvIIEU(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))).eval()
    x = torch.randn(1, 3, 12, 12)
    x[..., :6] = 0
    x.requires_grad_()
    terms, y = layer.terms(x), layer.response(x)
    assert y[..., :4].abs().min() > 0.01  # the norm's shift: not a zero response
    assert torch.equal(terms.similarity[..., :4], torch.zeros(1, 4, 10, 4))
    assert terms.similarity[..., 4:].ne(0).all()
    torch.testing.assert_close(layer(x)[..., :4], (terms.gate * y)[..., :4])
    assert layer(x).abs().max() < 100 < (y[..., :4] / (3 * EPS)).abs().max()
    layer(x).sum().backward()
    assert x.grad.isfinite().all() and layer.conv.weight.grad.isfinite().all()


def test_a_filter_of_zeros_has_similarity_0_and_finite_gradients():
    layer = shaken(ConvIIEU(nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4))).eval()
    with torch.no_grad():
        layer.conv.weight[1] = 0
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    assert layer.terms(x).similarity[:, 1].eq(0).all()
    layer(x).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_nearly_empty_patches_count_as_empty_up_to_eps():
    x = torch.full((1, 3, 1, 1), 1e-4)
    conv = nn.Conv2d(3, 2, 1, bias=False)
    assert ConvIIEU(conv).terms(x).similarity.abs().min() > 0.001
    assert ConvIIEU(conv, eps=2e-4).terms(x).similarity.eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_measures_lengths_in_float32(dtype: torch.dtype):
    conv = nn.Conv2d(64, 4, 3, bias=False).to(dtype)
    for size in (300.0, 1e-3):  # squares that overflow, and that vanish, in float16
        x = (size * torch.randn(1, 64, 5, 5)).to(dtype)
        got = patch_norm(x, conv)
        assert got.dtype == torch.float32
        torch.testing.assert_close(
            got, patch_norm(x.double(), conv.double()).float(), rtol=1e-5, atol=0
        )
        conv.to(dtype)
    layer = ConvIIEU(conv, nn.BatchNorm2d(4, dtype=dtype))
    assert layer(torch.zeros(2, 64, 5, 5, dtype=dtype)).isfinite().all()


def test_a_batch_of_one_and_a_single_channel_keep_their_dimensions():
    for channels in (1, 4):
        layer = shaken(ConvIIEU(nn.Conv2d(3, channels, 3)))
        x = torch.randn(3, 3, 6, 6)
        whole = layer(x)
        assert whole.shape == (3, channels, 4, 4)
        torch.testing.assert_close(layer(x[:1]), whole[:1])
        torch.testing.assert_close(layer(x[0]), whole[0])
    only = shaken(ConvIIEU(nn.Conv2d(3, 1, 3)))
    torch.testing.assert_close(
        only.terms(x).shift, torch.sigmoid(only.unit.shift.bias).expand(3, 1)
    )


def test_a_threshold_pushed_below_0_makes_weights_negative_unless_it_is_constrained():
    conv, x = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
    lowest = {}
    for constrain in ("none", "softplus", "clamp"):
        layer = ConvIIEU(conv, constrain=constrain)
        torch.testing.assert_close(layer.unit.threshold(), torch.full((4,), 0.05))
        with torch.no_grad():
            layer.unit.eta.fill_(-0.2)
            layer.unit.shift.bias.fill_(-3.0)
        lowest[constrain] = layer.terms(x).gate.detach().min().item()
    assert lowest["none"] < -0.1
    assert lowest["softplus"] > 0
    assert lowest["clamp"] == 0


def test_scope_group_measures_what_a_filter_sees_and_scope_all_is_too_small_by_the_root():
    conv = nn.Conv2d(16, 16, 3, groups=16, bias=False, dtype=torch.float64)
    x = torch.randn(4, 16, 12, 12, dtype=torch.float64)
    everything, own = (
        ConvIIEU(conv, norm_scope=scope).terms(x).similarity.detach() for scope in ("all", "group")
    )
    assert own.abs().max() <= 1 < everything.abs().max() * 4
    ratio = (own.norm() / everything.norm()).item()
    assert 0.9 * 4 < ratio < 1.2 * 4
    assert ConvIIEU(conv).unit.norm_scope == "all"


def test_a_linear_layer_is_the_convolution_of_kernel_1():
    linear = nn.Linear(5, 4, dtype=torch.float64)
    conv = nn.Conv1d(5, 4, 1, dtype=torch.float64)
    conv.load_state_dict({"weight": linear.weight[..., None], "bias": linear.bias})
    norm = nn.BatchNorm1d(4, dtype=torch.float64)
    by_rows, by_maps = shaken(LinearIIEU(linear, norm)), ConvIIEU(conv, copy.deepcopy(norm))
    by_maps.unit, by_maps.norm = copy.deepcopy(by_rows.unit), copy.deepcopy(by_rows.norm)
    by_maps.unit.dim = 1
    conv.load_state_dict({"weight": linear.weight[..., None], "bias": linear.bias})
    x = torch.randn(3, 7, 5, dtype=torch.float64)
    torch.testing.assert_close(by_rows(x), by_maps(x.mT).mT, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        by_rows(x[:, 0]), by_maps(x[:, 0, :, None])[..., 0], rtol=1e-12, atol=1e-14
    )
    torch.testing.assert_close(
        by_rows.eval()(x[0, 0]), by_rows(x[:1, 0])[0], rtol=1e-12, atol=1e-14
    )


# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, 1e-12)])
@pytest.mark.parametrize("bias", [False, True])
def test_folding_the_batch_norm_changes_nothing(dtype: torch.dtype, bound: float, bias: bool):
    conv = nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=bias)
    for layer, x in (
        (ConvIIEU(conv, nn.BatchNorm2d(6), norm_scope="group"), torch.randn(2, 4, 9, 9)),
        (ConvIIEU(conv, nn.BatchNorm2d(6, affine=False)), torch.randn(2, 4, 9, 9)),
        (LinearIIEU(nn.Linear(4, 6, bias=bias), nn.BatchNorm1d(6)), torch.randn(5, 4)),
        (ConvIIEU(conv), torch.randn(2, 4, 9, 9)),
    ):
        layer, x = shaken(layer.to(dtype)).train(), x.to(dtype)
        before = copy.deepcopy(layer.state_dict())
        folded = layer.fold()
        assert folded.norm is None and not folded.training and layer.training
        torch.testing.assert_close(folded(x), layer.eval()(x), rtol=bound, atol=bound)
        assert all(torch.equal(before[name], value) for name, value in layer.state_dict().items())


def test_folding_keeps_the_lengths_of_the_filters_before_it():
    layer = shaken(ConvIIEU(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6))).eval()
    x, folded = torch.randn(2, 4, 9, 9), layer.fold()
    torch.testing.assert_close(folded.unit.filter_norm, layer.conv.weight.flatten(1).norm(dim=1))
    assert not torch.allclose(
        folded.conv.weight.flatten(1).norm(dim=1), folded.unit.filter_norm, rtol=0.01
    )
    want = folded(x)
    folded.unit.filter_norm = None  # the folded filters' own lengths are the wrong ones
    assert (folded(x) - want).abs().max() > 1e-3
    again = layer.fold()
    again.load_state_dict(layer.fold().state_dict())
    assert torch.equal(again(x), want)


def test_what_cannot_be_folded_is_refused():
    grouped = ConvIIEU(nn.Conv2d(4, 6, 3), nn.GroupNorm(2, 6))
    untracked = ConvIIEU(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6, track_running_stats=False))
    computed = ConvIIEU(
        nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 6, 3)), nn.BatchNorm2d(6)
    )
    for layer in (grouped, untracked, computed):
        assert layer(torch.randn(2, 4, 5, 5)).shape == (2, 6, 3, 3)
        with pytest.raises(ArgumentError):
            layer.fold()


# ------------------------------------------------------------------------------------------------


def activated(inputs, outputs, kernel, stride=1):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return ConvIIEU(conv, nn.BatchNorm2d(outputs))


def bottleneck_resnet(blocks, couplers):
    """The layers of a bottleneck ResNet for ImageNet, in a list.

    Only their parameters are asked for.
    """
    layers, inputs = [activated(3, 64, 7, 2)], 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        for block in range(count):
            layers += [
                activated(inputs, width, 1),
                activated(width, width, 3),
                activated(width, 4 * width, 1),
            ]
            layers += [activated(inputs, 4 * width, 1)] if block == 0 else []
            layers += [Coupler(4 * width)] if couplers else []
            inputs = 4 * width
    return nn.ModuleList([*layers, nn.Linear(inputs, 1000)])


@pytest.mark.parametrize(
    ("blocks", "plain", "basic", "coupled"),
    [
        ((1, 1, 1, 1), 10_064_936, 10_093_928, 10_822_168),
        ((2, 2, 2, 2), 15_995_176, 16_041_448, 17_497_928),
        ((3, 4, 6, 3), 25_557_032, 25_636_712, 28_277_208),
    ],
)
def test_parameter_counts_are_those_of_table_3(blocks, plain, basic, coupled):
    with torch.device("meta"):
        nets = [bottleneck_resnet(blocks, couplers) for couplers in (False, True)]
    counts = [sum(p.numel() for p in net.parameters()) for net in nets]
    units = sum(
        p.numel() for layer in nets[0] if hasattr(layer, "unit") for p in layer.unit.parameters()
    )
    assert [counts[0] - units, *counts] == [plain, basic, coupled]


def test_state_names_stay_as_they_are():
    layer = ConvIIEU(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), term_b="batch")
    assert set(layer.state_dict()) == {
        "conv.weight",
        "conv.bias",
        "norm.weight",
        "norm.bias",
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
        "unit.eta",
        "unit.shift.weight",
        "unit.shift.bias",
        "unit.shift.norm.running_mean",
        "unit.shift.norm.running_var",
        "unit.shift.norm.num_batches_tracked",
    }
    linear = set(LinearIIEU(nn.Linear(3, 4)).state_dict())
    assert linear == {
        "linear.weight",
        "linear.bias",
        "unit.eta",
        "unit.shift.weight",
        "unit.shift.bias",
    }
    assert set(ConvIIEU(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).fold().state_dict()) == {
        "conv.weight",
        "conv.bias",
        "unit.eta",
        "unit.shift.weight",
        "unit.shift.bias",
        "unit.filter_norm",
    }


def test_weight_decay_can_spare_all_of_the_unit():
    layer = ConvIIEU(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))
    spared = layer.no_weight_decay()
    assert spared == {"unit.eta", "unit.shift.weight", "unit.shift.bias"}
    assert all(p.dim() == 1 for name, p in layer.named_parameters() if name in spared)


def test_the_unit_is_made_where_the_convolution_is_and_in_its_dtype():
    layer = ConvIIEU(nn.Conv2d(3, 4, 3, device="meta", dtype=torch.bfloat16), term_b="batch")
    for value in layer.unit.state_dict().values():
        assert value.device.type == "meta"
    assert layer.unit.eta.dtype == torch.bfloat16


# ------------------------------------------------------------------------------------------------


CONV = nn.Conv2d(4, 6, 3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ConvIIEU(nn.Linear(4, 6)),
        lambda: ConvIIEU(nn.ConvTranspose2d(4, 6, 3)),
        lambda: ConvIIEU(nn.LazyConv2d(6, 3)),
        lambda: ConvIIEU("conv"),
        lambda: LinearIIEU(CONV),
        lambda: ConvIIEU(CONV, nn.BatchNorm2d(4)),
        lambda: ConvIIEU(CONV, nn.BatchNorm1d(6)),
        lambda: ConvIIEU(CONV, nn.GroupNorm(2, 4)),
        lambda: ConvIIEU(CONV, "batch"),
        lambda: ConvIIEU(CONV, term_b="instance"),
        lambda: ConvIIEU(CONV, term_b="group"),
        lambda: ConvIIEU(CONV, term_b="group", groups=4),
        lambda: ConvIIEU(CONV, term_b="group", groups=0),
        lambda: ConvIIEU(CONV, groups=2),
        lambda: ConvIIEU(CONV, norm_scope="some"),
        lambda: ConvIIEU(CONV, constrain="relu"),
        lambda: ConvIIEU(CONV, constrain="softplus", eta=-0.1),
        lambda: ConvIIEU(CONV, eta=math.nan),
        lambda: ConvIIEU(CONV, eps=0.0),
    ],
)
def test_a_layer_that_makes_no_sense_is_refused_when_it_is_built(build):
    with pytest.raises(ArgumentError):
        build()


@pytest.mark.parametrize(
    ("layer", "x"),
    [
        (ConvIIEU(CONV), torch.ones(2, 4, 9)[0]),
        (ConvIIEU(CONV), torch.ones(2, 4, 9, 9, 9)),
        (ConvIIEU(CONV), torch.ones(2, 5, 9, 9)),
        (ConvIIEU(CONV), torch.ones(2, 4, 2, 9)),
        (ConvIIEU(nn.Conv2d(4, 6, 5, padding=2, padding_mode="reflect")), torch.ones(1, 4, 2, 9)),
        (ConvIIEU(nn.Conv2d(4, 6, 5, padding=2, padding_mode="circular")), torch.ones(1, 4, 1, 9)),
        (ConvIIEU(CONV), torch.ones(2, 4, 9, 9, dtype=torch.float64)),
        (ConvIIEU(CONV, term_b="batch"), torch.ones(1, 4, 9, 9)),
        (ConvIIEU(CONV, nn.BatchNorm2d(6)), torch.ones(1, 4, 3, 3)),
        (LinearIIEU(nn.Linear(4, 6), nn.BatchNorm1d(6)), torch.ones(1, 4)),
        (LinearIIEU(nn.Linear(4, 6)), torch.ones(2, 5)),
    ],
)
def test_an_input_that_does_not_fit_is_refused_in_our_words(layer, x):
    with pytest.raises(ArgumentError):
        layer(x)


def coupled_options():
    conv = nn.Conv2d(4, 4, (3, 2), stride=2, padding=1, dilation=(1, 2), groups=2, bias=False)
    norm = nn.BatchNorm2d(4)
    return ConvIIEU(conv, norm, term_b="group", groups=2, norm_scope="group", constrain="softplus")


QUICK = [
    "state_survives",
    "bad_input_gets_our_error",
    "a_wrong_shape_gets_our_error",
    "other_dtypes_work_or_get_our_error",
    "finite_input_never_gives_nan",
    "finite_input_never_gives_nan_in_training",
    "batches_do_not_matter",
    "layout_does_not_matter",
    "channels_last_is_kept",
    "every_parameter_receives_a_gradient",
    "gradients_match_finite_differences",
    "autocast_keeps_the_input_dtype",
    "half_precision_layers_work",
    "works_on_the_meta_device",
]


# The sentence of docs/layers.md that this stands for is tested in test_every_layer.py and
# test_any_size.py.
TWO_GRADIENTS = {
    "the_largest_float16_everywhere_never_gives_nan": "float16 cannot hold both gradients"
}


@pytest.mark.slow
def test_conv_iieu_keeps_the_contract_of_layers():
    check_layer(
        coupled_options,
        (2, 4, 4, 4),
        seed=1,
        leave_out=TWO_GRADIENTS
        | {
            "exports_to_onnx": "tested for the linear form; slices and additions differ",
            "second_gradients_match_finite_differences": "shown for the one-dimensional form",
        },
    )


@pytest.mark.slow
def test_linear_iieu_keeps_the_contract_of_layers():
    check_layer(
        lambda: LinearIIEU(nn.Linear(3, 4)),
        (2, 3),
        channel_dim=-1,
        leave_out=TWO_GRADIENTS
        | {
            name: "shown for the convolution"
            for name in ("traces_through_aot_autograd", "compiles_whole_and_once")
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: ConvIIEU(nn.Conv2d(3, 4, 3, padding=1)), (2, 3, 4, 3)),
        (
            lambda: ConvIIEU(nn.Conv1d(3, 4, 3, padding="same"), nn.BatchNorm1d(4), term_b="batch"),
            (3, 3, 5),
        ),
        (
            lambda: ConvIIEU(
                nn.Conv1d(4, 4, 2, groups=4, padding=1), term_b="affine", norm_scope="group"
            ),
            (2, 4, 3),
        ),
    ],
)
def test_other_forms_keep_the_quick_part_of_the_contract(build, shape):
    second = ["second_gradients_match_finite_differences"] if len(shape) == 3 else []
    check_layer(build, shape, only=QUICK + second, seed=2)


@pytest.mark.slow
def test_conv_iieu_trains_in_two_processes():
    build = lambda: ConvIIEU(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))  # noqa: E731 - the layer's maker
    check_layer(build, (2, 3, 5, 5), only=["trains_in_two_processes"], ddp=True)
