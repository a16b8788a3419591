"""Bundles of paths that share their weights, and lemma 4.1.

Exactly, by all signs of all weights, and by sampling.
"""

import itertools
import json
import math

import pytest
import torch
from analysis.path_networks import CONVOLUTIONS, convolutional, dense, plain
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import bundle_kernel, bundles, expected_products
from loops import for_each
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError

SIGMA = 0.7


def lemma_network(**options) -> tuple[nn.Module, Tensor]:
    """Section 4's network, with a readout: circular, averaged, its gates from elsewhere."""
    options = {
        "padding": "circular",
        "head": "average",
        "gate": "galu",
        "dtype": torch.float64,
        **options,
    }
    return deep_gated.DeepGatedConvNetwork((1, 4), (2, 1), 2, **options), torch.randn(
        3, 1, 4, dtype=torch.float64
    )


def outputs_for(model: nn.Module, x: Tensor, weights: list[Tensor]) -> Tensor:
    """Outputs for many weights at once, (draws, n), the gates held.

    ``weights`` have a dimension of draws in front.
    """
    gates = [gate.detach() for gate in model.gates(x)]
    names = [f"weights.{i}.weight" for i in range(len(weights))]

    def run(drawn: tuple[Tensor, ...]) -> Tensor:
        state = dict(zip(names, drawn, strict=True))
        return torch.func.functional_call(model, state, (x,), {"gates": gates})[:, 0]

    return torch.func.vmap(run)(tuple(weights))


def all_signs(model: nn.Module) -> list[Tensor]:
    shapes = [parameter.shape for parameter in model.strength_parameters()]
    count = sum(shape.numel() for shape in shapes)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=count)), dtype=torch.float64)
    return [
        part.reshape(-1, *shape)
        for part, shape in zip(
            signs.split([shape.numel() for shape in shapes], 1), shapes, strict=True
        )
    ]


def test_there_are_as_many_bundles_as_the_paper_says():
    """One channel, d_in = 3, kernel 2, three convolutions.

    Figure 9, with 8 strengths of 3 paths each.
    """
    conv = [
        nn.Conv1d(1, 1, 2, padding="same", padding_mode="circular", bias=False) for _ in range(3)
    ]
    model = nn.Sequential(
        *(part for each in conv for part in (each, nn.ReLU())),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
    )
    found = bundles(deep_gated.paths(model.double(), torch.randn(2, 1, 3, dtype=torch.float64)))
    assert len(found.which) == 3 * 2**3
    assert len(found) == 2**3
    assert found.sizes.tolist() == [3] * 8
    strengths = [
        conv[0].weight[0, 0, i] * conv[1].weight[0, 0, j] * conv[2].weight[0, 0, k] / 3
        for i, j, k in itertools.product(range(2), repeat=3)
    ]
    torch.testing.assert_close(found.strength, torch.stack(strengths), rtol=1e-14, atol=0)


def test_all_paths_of_a_bundle_have_its_strength_and_their_features_add_up_to_the_output():
    model, x = lemma_network()
    walked = deep_gated.paths(model, x)
    found = bundles(walked)
    assert torch.equal(found.strength[found.which], walked.strength)
    torch.testing.assert_close(
        found.features @ found.strength, model(x)[:, 0], rtol=1e-12, atol=1e-13
    )


@for_each("gate", ["linear", "galu", "soft_galu"])
def test_the_kernel_of_bundles_is_that_of_the_bundles_walked(gate: str):
    nets = [dense(gate), *(convolutional(gate, which) for which in CONVOLUTIONS)]
    for model, x in nets:
        want = bundles(deep_gated.paths(model, x)).kernel()
        torch.testing.assert_close(
            bundle_kernel(model, x), want, rtol=1e-11, atol=1e-12 * want.abs().max().item()
        )


def test_plain_networks_have_bundles_too():
    for which in (3, 4):
        model, x = plain(nn.ReLU())[which]
        torch.testing.assert_close(
            bundle_kernel(model, x),
            bundles(deep_gated.paths(model, x)).kernel(),
            rtol=1e-12,
            atol=1e-12,
        )


def test_without_a_pool_every_path_is_a_bundle():
    for model, x in (dense("galu"), convolutional("galu", "padded, flattened")):
        assert bundles(deep_gated.paths(model, x)).sizes.unique().tolist() == [1]
        torch.testing.assert_close(
            bundle_kernel(model, x), deep_gated.path_kernel(model, x, kind="features")
        )


@for_each("gate", ["galu", "soft_galu", "linear"])
def test_lemma_4_1_holds_exactly_over_all_signs_of_all_weights(gate: str):
    """With weights of plus or minus sigma, the mean over every combination is the expectation."""
    model, x = lemma_network(gate=gate, sigma=SIGMA)
    signs = all_signs(model)
    assert len(signs[0]) == 2 ** (4 + 4 + 1)
    y = outputs_for(model, x, [SIGMA * each for each in signs])
    torch.testing.assert_close(
        expected_products(model, x), y.T @ y / len(y), rtol=1e-12, atol=1e-13
    )


def sampled_products(seed: int, draws: int) -> tuple[Tensor, Tensor]:
    """Products of two outputs for many draws, (draws, 3), and their means by lemma 4.1, (3,)."""
    generator = torch.Generator().manual_seed(seed)
    model = deep_gated.DeepGatedConvNetwork(
        (2, 5, 5),
        (4, 6),
        3,
        padding="circular",
        head="average",
        dense=(8,),
        gate="galu",
        dtype=torch.float64,
        generator=generator,
    )
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64, generator=generator)
    weights = [
        sigma * (2 * torch.randint(0, 2, (draws, *p.shape), generator=generator).double() - 1)
        for sigma, p in zip(model.sigmas, model.strength_parameters(), strict=True)
    ]
    y, want = outputs_for(model, x, weights), expected_products(model, x)
    return y[:, [0, 0, 1]] * y[:, [0, 1, 1]], want[[0, 0, 1], [0, 1, 1]]


def inside(products: Tensor, want: Tensor) -> Tensor:
    """Whether each mean is inside its 99.9 % interval."""
    return (products.mean(0) - want).abs() < 3.29 * products.std(0) / math.sqrt(len(products))


def test_lemma_4_1_is_inside_the_interval_of_a_sample():
    products, want = sampled_products(seed=20, draws=4000)
    assert inside(products, want).all()
    assert not inside(products, 1.3 * want)[[0, 2]].any()  # the interval says something


@pytest.mark.slow
def test_lemma_4_1_is_inside_the_interval_for_nearly_every_seed():
    hits = [inside(*sampled_products(seed, draws=4000))[1].item() for seed in range(1000)]
    assert sum(hits) >= 990


def test_circular_convolutions_and_an_average_do_not_see_a_rotation():
    model, x = lemma_network()
    want = expected_products(model, x)
    torch.testing.assert_close(
        expected_products(model, x.roll(1, 2), x), want, rtol=1e-12, atol=1e-13
    )
    other, _ = lemma_network(head="flatten")
    assert not torch.allclose(
        expected_products(other, x.roll(1, 2), x), expected_products(other, x)
    )


def test_a_block_between_two_sets_of_inputs():
    model, x = lemma_network()
    torch.testing.assert_close(
        expected_products(model, x[:1], x[1:]), expected_products(model, x)[:1, 1:]
    )


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    model, x = lemma_network()
    whole = bundle_kernel(model, x)
    for size in (1, 130):
        monkeypatch.setitem(bundle_kernel.__globals__, "CHUNK", size)
        assert torch.equal(bundle_kernel(model, x), whole)


def test_random_gates_are_found_by_index():
    model, x = lemma_network(gate="random", examples=5)
    index = torch.tensor([4, 0, 2])
    want = bundles(deep_gated.paths(model, x, index=index)).kernel()
    torch.testing.assert_close(bundle_kernel(model, x, index=index), want, rtol=1e-12, atol=1e-13)
    block = bundle_kernel(model, x[:1], x[1:], index=index[:1], index2=index[1:])
    torch.testing.assert_close(block, want[:1, 1:], rtol=1e-12, atol=1e-13)


def test_sigmas_of_a_plain_network_are_asked_for():
    model, x = plain(nn.ReLU())[3]
    with pytest.raises(ArgumentError, match="sigmas"):
        expected_products(model, x)
    with pytest.raises(ArgumentError, match="one sigma for each layer"):
        expected_products(model, x, sigmas=(1.0, 1.0, 1.0))
    want = (
        bundles(deep_gated.paths(model, x)).kernel() * (0.5 * 2.0) ** 2 / 4**2
    )  # two layers, four positions
    torch.testing.assert_close(
        expected_products(model, x, sigmas=(0.5, 2.0)), want, rtol=1e-12, atol=1e-13
    )


def test_what_is_not_read_is_named():
    grouped, x = plain(nn.ReLU())[0]
    with pytest.raises(ArgumentError, match="groups"):
        bundle_kernel(grouped, x)
    pooled, x = plain(nn.ReLU())[1]
    with pytest.raises(ArgumentError, match="joins all channels"):
        bundle_kernel(pooled, x)
    with pytest.raises(ArgumentError, match="one output"):
        bundle_kernel(nn.Sequential(nn.Conv1d(1, 1, 2, bias=False)), torch.randn(2, 1, 4))


def test_the_record_is_plain_and_shows_itself():
    model, x = lemma_network()
    found = bundles(deep_gated.paths(model, x))
    assert json.loads(json.dumps(found.to_dict()))["count"] == len(found)
    assert f"{len(found)} bundles of {len(found.which)} paths" in found._repr_html_()


def gated_in_front() -> list[tuple[nn.Module, Tensor]]:
    first = nn.Sequential(gw.nn.SoftReLU(), nn.Linear(3, 2, bias=False))
    conv = nn.Sequential(
        nn.ReLU(),
        gw.nn.SiLU(),
        nn.Conv1d(3, 2, 2, bias=False),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(2, 1, bias=False),
    )
    pooled = nn.Sequential(
        gw.nn.Abs(),
        nn.AvgPool2d(2, stride=1),
        nn.Conv2d(2, 2, 2, bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(2, 1, bias=False),
    )
    flat = nn.Sequential(nn.SiLU(), nn.Flatten(), nn.Linear(6, 1, bias=False))
    shapes = ((3,), (3, 4), (2, 3, 3), (2, 3))
    models = (first, conv, pooled, flat)
    return [
        (m.double(), torch.randn(4, *s, dtype=torch.float64))
        for m, s in zip(models, shapes, strict=True)
    ]


@for_each("which", range(4))
def test_a_gate_in_front_of_the_first_layer_multiplies_each_input(which: int):
    model, x = gated_in_front()[which]
    want = bundles(deep_gated.paths(model, x)).kernel()
    torch.testing.assert_close(bundle_kernel(model, x), want, rtol=1e-12, atol=1e-13)


def test_a_pool_of_the_input_whose_channels_are_gated_apart_is_refused():
    layers = nn.AvgPool1d(2), nn.ReLU(), nn.Flatten(), nn.Linear(4, 1, bias=False)
    with pytest.raises(ArgumentError, match="joins all channels"):
        bundle_kernel(nn.Sequential(*layers), torch.randn(3, 2, 4))


def test_a_network_without_weights_is_refused():
    with pytest.raises(ArgumentError, match="no layer of weights"):
        bundle_kernel(nn.Sequential(nn.ReLU()), torch.randn(3, 1))
