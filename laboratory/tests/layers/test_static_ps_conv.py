"""Static phase selective layers.

Fixed splits, learned ones with their gates and noise, and what deployment keeps.
"""

import copy
import math
import os
import subprocess
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from gatewise_papers.psc import (
    StaticPSConv1d,
    StaticPSConv2d,
    StaticPSLinear,
    anneal_splits,
    gates,
    gumbel_like,
    split_temperature,
)
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy import stats
from torch import nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.layers.phase import PSConv2d
from gatewise.testing import check_layer


@st.composite
def convolutions(draw):
    """Arguments of a 2-d convolution with a few outputs, groups among them, and an input."""
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    inputs, outputs = groups * draw(st.integers(1, 2)), groups * draw(st.integers(1, 4))
    options = {
        "kernel_size": draw(st.integers(1, 3)),
        "stride": draw(st.integers(1, 2)),
        "padding": draw(st.integers(0, 2)),
        "dilation": draw(st.integers(1, 2)),
        "groups": groups,
        "bias": draw(st.booleans()),
        "padding_mode": draw(st.sampled_from(("zeros", "reflect"))),
    }
    x = torch.randn(
        2, inputs, 6, 7, generator=torch.Generator().manual_seed(draw(st.integers(0, 2**30)))
    )
    return (inputs, outputs), options, x, draw(st.integers(0, outputs))


def set_boundary(layer, boundary: int):
    with torch.no_grad():
        layer.split_logits.copy_(torch.randn(layer.split_logits.shape))
        layer.split_logits[boundary] += 10
    return layer


@given(convolutions())
def test_a_fixed_split_gives_rows_of_two_plain_convolutions(case):
    (inputs, outputs), options, x, boundary = case
    layer = StaticPSConv2d(
        inputs, outputs, **options, split=boundary / outputs, dtype=torch.float64
    )
    plain = nn.Conv2d(inputs, outputs, **options, dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = x.double()
    want = torch.cat((plain(x.clamp(min=0))[:, :boundary], plain(x.clamp(max=0))[:, boundary:]), 1)
    assert layer.boundary() == boundary
    assert torch.allclose(layer(x), want, rtol=0, atol=1e-12)


@for_each(
    ("split", "outputs", "positive"),
    [
        (0, 4, 0),
        (1, 4, 4),
        (0.5, 4, 2),
        (0.5, 5, 3),
        (0.49, 5, 2),
        (0.124, 4, 0),
        (0.125, 4, 1),
        (0.2, 1, 0),
    ],
)
def test_the_ratio_is_rounded_to_whole_outputs(split: float, outputs: int, positive: int):
    layer = StaticPSLinear(3, outputs, split=split)
    assert layer.boundary() == positive
    assert layer.gates(torch.zeros(3)).tolist() == [0.0] * positive + [1.0] * (outputs - positive)


@for_each("groups", [1, 2, 4])
@for_each("split", [0.0, 0.3, 0.5, 1.0])
def test_a_fixed_split_has_a_plain_layers_parameters_and_multiplications(groups: int, split: float):
    arguments, x = (4, 12, 3, 1, 1, 1, groups), torch.randn(2, 4, 8, 8)
    layer, plain = StaticPSConv2d(*arguments, split=split), nn.Conv2d(*arguments)
    assert {k: v.shape for k, v in layer.state_dict().items()} == {
        k: v.shape for k, v in plain.state_dict().items()
    }
    counts = []
    for each in (layer, plain):
        with FlopCounterMode(display=False) as counter:
            each(x)
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1]


def test_every_position_of_the_one_is_another_number_of_positive_outputs():
    counts = [int((gates(one) == 0).sum()) for one in torch.eye(5)]
    assert counts == [0, 1, 2, 3, 4]  # the paper's sum over j < i gives 1, 2, 3, 4, 4
    layer = StaticPSLinear(3, 4).eval()
    for boundary in range(5):
        assert set_boundary(layer, boundary).boundary() == boundary
        assert layer.gates(torch.zeros(3)).tolist() == [0.0] * boundary + [1.0] * (4 - boundary)


@for_each("relaxation", ["gumbel", "straight_through"])
def test_training_computes_the_gated_sum_of_both_branches(relaxation: str):
    layer = StaticPSConv2d(
        2, 4, 3, noise=False, temperature=0.7, relaxation=relaxation, dtype=torch.float64
    )
    set_boundary(layer, 1)
    with torch.no_grad():
        layer.split_logits[1] -= 9.5
    scores = layer.split_logits.detach().numpy() / 0.7
    s = np.exp(scores - scores.max())
    s = s / s.sum() if relaxation == "gumbel" else (scores == scores.max()).astype(float)
    g = np.array([s[: i + 1].sum() for i in range(4)])
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    positive = F.conv2d(x.clamp(min=0), layer.weight).detach().numpy()
    negative = F.conv2d(x.clamp(max=0), layer.weight_neg).detach().numpy()
    g, bias = g.reshape(-1, 1, 1), layer.bias.detach().numpy().reshape(-1, 1, 1)
    assert np.allclose(
        layer(x).detach().numpy(), (1 - g) * positive + g * negative + bias, rtol=0, atol=1e-13
    )


@for_each("relaxation", ["gumbel", "straight_through"])
def test_scores_get_the_softmax_gradient_of_the_reverse_cumulative_sum(relaxation: str):
    layer = StaticPSLinear(
        3, 4, noise=False, temperature=0.5, relaxation=relaxation, dtype=torch.float64
    )
    set_boundary(layer, 2)
    with torch.no_grad():
        layer.split_logits[2] -= 9.5
    x, d = torch.randn(6, 3, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    (got,) = torch.autograd.grad(layer(x), layer.split_logits, d)
    with torch.no_grad():
        dg = (d * (x.clamp(max=0) @ layer.weight_neg.T - x.clamp(min=0) @ layer.weight.T)).sum(0)
        ds = torch.cat((dg.flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.float64)))
        s = torch.softmax(layer.split_logits / 0.5, 0)
        want = (s * (ds - (s * ds).sum())) / 0.5
    assert torch.allclose(got, want, rtol=0, atol=1e-12)


def test_derivatives_in_training_match_finite_differences():
    for options in ({}, {"data_dependent": True}):
        layer = StaticPSLinear(3, 4, noise=False, dtype=torch.float64, **options)
        names = [name for name, _ in layer.named_parameters()]
        values = [torch.randn_like(p).requires_grad_() for p in layer.parameters()]
        x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)

        def function(x, *values, layer=layer, names=names):
            return functional_call(layer, dict(zip(names, values, strict=True)), (x,))

        assert torch.autograd.gradcheck(function, (x, *values))


def test_straight_through_gates_are_exactly_zero_or_one():
    layer = StaticPSLinear(3, 20, relaxation="straight_through", data_dependent=True)
    seen = layer.gates(torch.zeros(5000, 3)).unique()
    assert seen.tolist() == [0.0, 1.0]
    soft = StaticPSLinear(3, 50).gates(torch.zeros(3)).detach()
    assert bool((soft.diff() >= 0).all()) and 0 <= float(soft.min()) < float(soft.max()) <= 1 + 1e-6


def test_the_noise_is_gumbel():
    drawn = gumbel_like(torch.zeros(20_000, dtype=torch.float64), None)
    assert stats.kstest(drawn.numpy(), stats.gumbel_r.cdf).pvalue > 0.001


def test_the_noise_is_finite_where_the_uniform_number_is_zero(monkeypatch):
    monkeypatch.setattr(
        torch, "rand", lambda shape, dtype, **_: torch.tensor([0.0, 1 - 2**-24], dtype=dtype)
    )
    assert bool(gumbel_like(torch.zeros(2), None).isfinite().all())


def test_each_boundary_is_drawn_as_often_as_its_score_says():
    layer = StaticPSLinear(2, 3, relaxation="straight_through")
    with torch.no_grad():
        layer.split_logits.copy_(torch.tensor([0.0, 1.0, 2.0, -1.0]))
    torch.manual_seed(1)
    with torch.no_grad():
        drawn = torch.stack([layer.gates(torch.zeros(2)) for _ in range(4000)])
    counts = torch.bincount((drawn == 0).sum(1), minlength=4).numpy()
    expected = torch.softmax(layer.split_logits.detach().double(), 0).numpy() * 4000
    assert stats.chisquare(counts, expected).pvalue > 0.001


def test_the_temperature_hardens_the_choice():
    layer, x = (
        StaticPSLinear(3, 4, noise=False, dtype=torch.float64),
        torch.zeros(3, dtype=torch.float64),
    )
    set_boundary(layer, 2)
    layer.set_temperature(1000.0)
    flat = torch.arange(1, 5, dtype=torch.float64) / 5
    assert torch.allclose(layer.gates(x), flat, atol=0.02)
    layer.set_temperature(0.001)
    assert torch.allclose(
        layer.gates(x), torch.tensor([0.0, 0, 1, 1], dtype=torch.float64), atol=1e-12
    )


def test_no_score_makes_a_gate_nan():
    layer = StaticPSLinear(3, 4, temperature=0.001)
    with torch.no_grad():
        layer.split_logits.copy_(torch.tensor([1e38, -1e38, 3.0, 1e38, 0.0]))
    y = layer(torch.randn(2, 3))
    y.sum().backward()
    assert not y.isnan().any() and bool(layer.split_logits.grad.isfinite().all())


def test_noise_comes_from_the_global_generator_or_from_the_one_given():
    x = torch.randn(2, 3)
    layer = StaticPSLinear(3, 4)
    draws = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        draws.append(layer(x))
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    assert not torch.equal(layer(x), layer(x))
    own = StaticPSLinear(3, 4, generator=torch.Generator().manual_seed(3))
    twin = copy.deepcopy(own)
    before = torch.random.get_rng_state()
    first = own(x)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(twin(x), first) and not torch.equal(own(x), first)


def test_evaluation_is_without_noise():
    layer, x = StaticPSConv2d(2, 3, 3).eval(), torch.randn(1, 2, 5, 5)
    before = torch.random.get_rng_state()
    assert torch.equal(layer(x), layer(x))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_untrained_layer_is_half_and_half():
    assert [StaticPSLinear(2, outputs).boundary() for outputs in (1, 2, 4, 5, 64)] == [
        1,
        1,
        2,
        3,
        32,
    ]


@given(
    convolutions(), st.booleans(), st.sampled_from((torch.float32, torch.float64, torch.bfloat16))
)
def test_the_deployed_layer_gives_the_same_bits_with_a_plain_layers_parameters(
    case, channels_last: bool, dtype
):
    (inputs, outputs), options, x, boundary = case
    layer = set_boundary(StaticPSConv2d(inputs, outputs, **options, dtype=dtype), boundary).eval()
    x = x.to(dtype)
    if channels_last:
        layer, x = (
            layer.to(memory_format=torch.channels_last),
            x.contiguous(memory_format=torch.channels_last),
        )
    before = torch.random.get_rng_state()
    deployed = layer.deploy()
    assert torch.equal(torch.random.get_rng_state(), before)
    plain = nn.Conv2d(inputs, outputs, **options)
    assert sum(p.numel() for p in deployed.parameters()) == sum(
        p.numel() for p in plain.parameters()
    )
    assert list(deployed.state_dict()) == list(plain.state_dict())
    assert deployed.boundary() == boundary and not deployed.training
    assert torch.equal(deployed(x), layer(x))
    positive, negative = (rows.detach().to(dtype) for rows in (layer.weight, layer.weight_neg))
    assert torch.equal(deployed.weight, torch.cat((positive[:boundary], negative[boundary:])))


@for_each("kind", [StaticPSLinear, StaticPSConv1d])
def test_larger_and_other_layers_deploy_with_the_same_bits(kind):
    layer = kind(64, 96) if kind is StaticPSLinear else kind(64, 96, 3, padding=1)
    x = torch.randn(17, 64) if kind is StaticPSLinear else torch.randn(3, 64, 21)
    for boundary in (0, 1, 37, 95, 96):
        set_boundary(layer.eval(), boundary)
        assert torch.equal(layer.deploy()(x), layer(x))


def test_a_deployed_layer_is_a_copy_that_trains_on():
    layer, x = set_boundary(StaticPSLinear(3, 4), 2), torch.randn(5, 3)
    deployed = layer.deploy()
    assert deployed.training and deployed.split == 0.5
    deployed(x).sum().backward()
    assert deployed.weight.grad is not None and layer.weight.grad is None
    again = deployed.deploy()
    assert torch.equal(again(x), deployed(x)) and again.weight is not deployed.weight


def test_a_data_dependent_split_cannot_be_deployed():
    layer = StaticPSConv2d(2, 3, 3, data_dependent=True)
    for call in (layer.deploy, layer.boundary):
        with pytest.raises(ArgumentError, match="data-dependent"):
            call()


@for_each("spatial", [0, 2])
def test_a_data_dependent_split_is_chosen_for_each_sample(spatial: int):
    arguments = (3, 4) if spatial == 0 else (3, 4, 2)
    kind = StaticPSLinear if spatial == 0 else StaticPSConv2d
    layer = kind(*arguments, data_dependent=True, dtype=torch.float64).eval()
    nn.init.normal_(layer.splitter.weight, std=5)
    nn.init.normal_(layer.splitter.bias, std=3)
    x = torch.randn(32, 3, *[3] * spatial, dtype=torch.float64)
    boundaries = set()
    for row, out in zip(x, layer(x), strict=True):
        mean = row.reshape(3, -1).mean(1)
        scores = layer.splitter.weight @ (mean / mean.abs().max()) + layer.splitter.bias
        boundaries.add(boundary := int(scores.argmax()))
        fixed = kind(*arguments, split=boundary / 4, dtype=torch.float64)
        rows = torch.cat((layer.weight[:boundary], layer.weight_neg[boundary:]))
        fixed.load_state_dict({"weight": rows, "bias": layer.bias})
        assert torch.allclose(out, fixed(row), rtol=0, atol=1e-13)
        assert layer.gates(row).tolist() == fixed.gates(row).tolist()
    assert len(boundaries) > 2
    bias = layer.bias.reshape(-1, *[1] * spatial)
    assert torch.allclose(layer(100 * x) - bias, 100 * (layer(x) - bias)), (
        "the choice does not depend on the scale"
    )


def test_a_data_dependent_layer_starts_as_a_data_invariant_one():
    layer, plain = (StaticPSConv2d(2, 3, 3, data_dependent=flag).eval() for flag in (True, False))
    shared = {name: layer.state_dict()[name] for name in ("weight", "weight_neg", "bias")}
    plain.load_state_dict({**plain.state_dict(), **shared})
    x = torch.randn(2, 2, 6, 6)
    assert torch.allclose(layer(x), plain(x), atol=1e-6)
    torch.manual_seed(0)
    noisy = layer.train().gates(x)
    assert noisy.shape == (2, 3) and not torch.equal(noisy[0], noisy[1]), (
        "each sample has its own noise"
    )


def test_float64_input_to_a_float32_data_dependent_layer_works():
    layer, x = StaticPSLinear(3, 4, data_dependent=True), torch.randn(2, 3, dtype=torch.float64)
    assert layer(x).dtype == torch.float64


def test_compiled_evaluation_equals_eager_but_for_rounding():
    layer, x = set_boundary(StaticPSConv2d(2, 5, 3), 3).eval(), torch.randn(2, 2, 6, 6)
    torch._dynamo.reset()
    assert torch.allclose(
        torch.compile(layer, backend="aot_eager", fullgraph=True)(x), layer(x), atol=1e-6
    )
    torch._dynamo.reset()


@pytest.mark.slow
@for_each("options", [{}, {"relaxation": "straight_through", "data_dependent": True}])
def test_compiled_training_draws_noise_and_survives_a_new_temperature(options: dict):
    layer, x = StaticPSConv2d(2, 5, 3, **options), torch.randn(3, 2, 6, 6)
    graphs = []

    def count(graph, _):
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    compiled = torch.compile(layer, backend=count, fullgraph=True)
    results = []
    for temperature in (5.0, 1.0, 0.1):
        layer.set_temperature(temperature)
        results.append(compiled(x))
        torch.manual_seed(4)
        want = layer(x)
        torch.manual_seed(4)
        assert torch.allclose(compiled(x), want, atol=1e-6)
    torch._dynamo.reset()
    assert len(graphs) == 1
    assert not torch.equal(results[0], results[1])


def test_an_ensemble_over_parameters_evaluates_each_members_split():
    layers = [set_boundary(StaticPSLinear(3, 4), boundary).eval() for boundary in range(5)]
    stack = {
        name: torch.stack([layer.state_dict()[name] for layer in layers])
        for name in layers[0].state_dict()
    }
    x = torch.randn(6, 3)
    many = vmap(lambda state: functional_call(layers[0], state, (x,)))(stack)
    assert torch.allclose(many, torch.stack([layer(x) for layer in layers]), atol=1e-6)


def test_vmap_in_training_draws_as_it_is_told():
    layer, x = StaticPSLinear(3, 4), torch.randn(1, 3).expand(5, 3)
    same = vmap(layer, randomness="same")(x)
    other = vmap(layer, randomness="different")(x)
    assert all(torch.equal(same[0], row) for row in same) and not torch.equal(other[0], other[1])


def test_the_temperature_falls_in_equal_ratios():
    steps = [split_temperature(i / 20) for i in range(21)]
    assert steps[0] == 1.0 and steps[15:] == pytest.approx([0.001] * 6)
    ratios = [b / a for a, b in pairwise(steps[:16])]
    assert all(math.isclose(ratio, 0.001 ** (1 / 15)) for ratio in ratios)


def test_the_noise_falls_with_the_temperature():
    layer = StaticPSLinear(3, 4).train()
    with torch.no_grad():
        layer.split_logits.copy_(torch.tensor([0.0, 0.0, 0.0, 0.1, 0.0]))
    x = torch.randn(1, 3)
    for temperature, settled in ((1.0, False), (0.001, True)):
        layer.set_temperature(temperature)
        drawn = torch.stack([layer.gates(x) for _ in range(20)])
        assert torch.allclose(drawn, torch.tensor([0.0, 0, 0, 1]).expand(20, 4)) == settled
    want = torch.softmax(torch.tensor([0, 0, 0, 0.1, 0], dtype=torch.float64) / 0.5, 0).max()
    layer.set_temperature(0.5)
    assert layer.confidence() == pytest.approx(float(want), rel=1e-6)


def test_the_confidence_is_the_frequency_of_the_boundary():
    """With temperature below 1, the largest noisy score is the boundary that often."""
    layer = StaticPSLinear(3, 4, relaxation="straight_through").train()
    with torch.no_grad():
        layer.split_logits.copy_(torch.tensor([0.1, 0.0, 0.5, 0.2, 0.0]))
    layer.set_temperature(0.4)
    torch.manual_seed(0)
    draws = 4000
    x = torch.randn(1, 3)
    want = torch.tensor([0.0, 0, 1, 1])  # the boundary 2
    hits = sum(bool(torch.equal(layer.gates(x).detach(), want)) for _ in range(draws))
    p = layer.confidence()
    assert abs(hits / draws - p) < 5 * math.sqrt(p * (1 - p) / draws)


def test_deploying_a_split_that_has_not_settled_warns():
    layer = StaticPSLinear(3, 4)
    with pytest.warns(UserWarning, match="has not settled"):
        layer.deploy()
    assert StaticPSLinear(3, 4, split=0.5).confidence() == 1
    layer.set_temperature(0.001)
    with torch.no_grad():
        layer.split_logits[1] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.deploy()
    with pytest.raises(ArgumentError, match="no single boundary"):
        StaticPSLinear(3, 4, data_dependent=True).confidence()


def test_annealing_reaches_every_learned_split_and_is_kept_in_checkpoints():
    inner = nn.Sequential(StaticPSLinear(4, 2))
    model = nn.Sequential(StaticPSConv2d(2, 3, 1), StaticPSConv2d(3, 3, 1, split=0.5), inner)
    assert anneal_splits(model, 0.375, start=4.0, end=1.0) == 2.0
    kept = {
        name: float(value)
        for name, value in model.state_dict().items()
        if name.endswith("temperature")
    }
    assert kept == {"0.temperature": 2.0, "2.0.temperature": 2.0}
    with pytest.raises(ArgumentError, match="no learned split"):
        anneal_splits(PSConv2d(2, 3, 1), 0.5)


@for_each(
    ("options", "named"),
    [
        ({"split": 1.2}, "split"),
        ({"split": -0.1}, "split"),
        ({"split": float("nan")}, "split"),
        ({"split": "half"}, "split"),
        ({"split": True}, "split"),
        ({"split": None}, "split"),
        ({"split": 0.5, "data_dependent": True}, "fixed split"),
        ({"relaxation": "softmax"}, "relaxation"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": 1e-4}, "temperature"),
        ({"temperature": 1e4}, "temperature"),
        ({"out_features": 0}, "out_features"),
    ],
)
def test_a_bad_option_is_named(options: dict, named: str):
    with pytest.raises(ArgumentError, match=named):
        StaticPSLinear(**{"in_features": 3, "out_features": 4} | options)


def test_bad_calls_get_our_error():
    with pytest.raises(ArgumentError, match="fixed split"):
        StaticPSLinear(3, 4, split=0.5).set_temperature(1.0)
    for progress in (-0.1, 1.1, True, float("nan"), "half"):
        with pytest.raises(ArgumentError, match="progress"):
            split_temperature(progress)
    with pytest.raises(ArgumentError, match="temperature"):
        split_temperature(0.5, end=0.0)


def test_a_rectified_input_is_warned_of_unless_all_outputs_are_positive():
    x = torch.rand(8, 8)
    for split in ("learned", 0.5, 0.0):
        with pytest.warns(RectifiedInputWarning, match="StaticPSLinear"):
            StaticPSLinear(8, 4, split=split)(x)
    StaticPSLinear(8, 4, split=1.0)(x)  # a warning would be an error here


def test_starting_weights_keep_the_mean_square_of_a_symmetric_input():
    layer, x = StaticPSLinear(500, 4000, bias=False, split=0.5), torch.randn(200, 500)
    assert float(layer(x).detach().square().mean()) == pytest.approx(1, rel=0.03)


CONTRACT = {
    "learned": (lambda: StaticPSConv2d(4, 6, 3, groups=2, padding=1), (2, 4, 5, 3), 1),
    "fixed": (lambda: StaticPSConv2d(4, 6, 3, groups=2, padding=1, split=0.3), (2, 4, 5, 3), 1),
    "data-dependent": (
        lambda: StaticPSConv2d(3, 4, 3, data_dependent=True, relaxation="straight_through"),
        (2, 3, 5, 4),
        1,
    ),
    "linear": (lambda: StaticPSLinear(5, 4), (2, 5), 1),
    "linear, data-dependent": (
        lambda: StaticPSLinear(5, 4, bias=False, data_dependent=True),
        (2, 3, 5),
        2,
    ),
    "sequence": (lambda: StaticPSConv1d(3, 4, 3, relaxation="straight_through"), (2, 3, 6), 1),
}
ONNX = {"exports_to_onnx": "has a test of its own"}
TWICE = {"traces_through_aot_autograd": "seconds for the same operations as in 'learned'"}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # the contract also feeds ones and zeros
@for_each("name", CONTRACT)
def test_it_keeps_the_contract(name: str):
    build, shape, channel_dim = CONTRACT[name]
    check_layer(
        build, shape, channel_dim=channel_dim, leave_out=ONNX if name == "learned" else ONNX | TWICE
    )


@pytest.mark.slow
@pytest.mark.onnx
@for_each("name", ["learned", "data-dependent"])
def test_it_exports_to_onnx(name: str):
    build, shape, channel_dim = CONTRACT[name]
    check_layer(build, shape, channel_dim=channel_dim, only=["exports_to_onnx"])


ONE_OF_TWO = """
import sys, torch
from gatewise.layers import StaticPSConv2d

def gradients(wrap, x):
    torch.manual_seed(0)
    layer = StaticPSConv2d(2, 4, 3)
    wrapped = wrap(layer)
    torch.manual_seed(1)
    wrapped(x).square().mean().backward()
    return [p.grad for p in layer.parameters()]

x = torch.randn(4, 2, 6, 6, generator=torch.Generator().manual_seed(2))
rank = int(sys.argv[1])
torch.distributed.init_process_group("gloo", init_method=sys.argv[2], rank=rank, world_size=2)
halved = gradients(torch.nn.parallel.DistributedDataParallel, x.chunk(2)[rank])
for a, b in zip(halved, gradients(lambda layer: layer, x), strict=True):
    assert torch.allclose(a, b, rtol=1e-4, atol=1e-6), (a, b)
torch.distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_two_processes_of_one_seed_train_a_learned_split_as_one_does(tmp_path: Path):
    # The contract compares gradients in evaluation, where the scores of a learned split have none.
    command = [sys.executable, "-c", ONE_OF_TWO]
    meeting, environment = (
        (tmp_path / "meeting").as_uri(),
        {**os.environ, "GLOO_SOCKET_IFNAME": "lo"},
    )
    both = [
        subprocess.Popen([*command, rank, meeting], env=environment, stderr=subprocess.PIPE)
        for rank in "01"
    ]
    said = [process.communicate(timeout=120)[1].decode() for process in both]
    assert [process.returncode for process in both] == [0, 0], "\n".join(said)


def test_it_shows_its_options():
    shown = repr(StaticPSLinear(2, 3, bias=False, noise=False))
    want = "in_features=2, out_features=3, bias=False, "
    want += "split='learned', relaxation='gumbel', noise=False"
    assert shown == f"StaticPSLinear({want})"
    assert (
        repr(StaticPSLinear(2, 3, split=0.5))
        == "StaticPSLinear(in_features=2, out_features=3, split=0.5)"
    )
