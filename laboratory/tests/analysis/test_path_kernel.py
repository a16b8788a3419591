"""The kernel of active paths: equal, bit for bit, to the sum over every path.

And right where none can be walked.
"""

import importlib
import math
import warnings

import pytest
import torch
from analysis.path_networks import CONVOLUTIONS, HARD, N, convolutional, dense, index_for, plain
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import path_kernel as path_kernel_name
from loops import for_each
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError, InexactCountWarning


def per_node(found, nodes: int) -> Tensor:
    """Sums over the enumerated paths from each input node: (n, n, nodes)."""
    columns = [found.activity[:, found.nodes[:, 0] == node] for node in range(nodes)]
    return torch.stack([each @ each.T for each in columns], 2)


@for_each("gate", HARD)
def test_lambda_is_bit_equal_to_enumeration(gate: str):
    model, x = dense(gate)
    index = index_for(gate)
    found = deep_gated.paths(model, x, index=index)
    kernel = deep_gated.path_kernel(model, x, index=index)
    assert kernel.dtype == torch.float64
    for node in range(3):  # the same from every input node
        assert torch.equal(kernel, per_node(found, 3)[..., node])
    assert torch.equal(
        deep_gated.path_kernel(model, x, kind="paths", index=index), found.kernel("activity")
    )


@for_each("which", CONVOLUTIONS)
@for_each("gate", HARD)
def test_lambda_of_convolutions_is_bit_equal_to_enumeration(gate: str, which: str):
    model, x = convolutional(gate, which)
    index = index_for(gate)
    found = deep_gated.paths(model, x, index=index)
    kernel = deep_gated.path_kernel(model, x, index=index)
    assert kernel.shape == (N, N, 2, 3, 3)
    assert torch.equal(kernel.flatten(2), per_node(found, 18))
    assert torch.equal(
        deep_gated.path_kernel(model, x, kind="paths", index=index), found.kernel("activity")
    )


@for_each("which", range(5))
def test_plain_networks_with_groups_strides_and_pools_are_bit_equal_to_enumeration(which: int):
    model, x = plain(nn.ReLU())[which]
    found, kernel = deep_gated.paths(model, x), deep_gated.path_kernel(model, x)
    nodes = x[0].numel()
    assert torch.equal(deep_gated.path_kernel(model, x, kind="paths"), found.kernel("activity"))
    want = per_node(found, nodes)
    assert (
        torch.equal(kernel.flatten(2), want)
        if kernel.dim() > 2
        else torch.equal(kernel, want[..., 0])
    )


@for_each("gate", ["galu", "soft_relu", "soft_galu"])
def test_hidden_features_have_the_gram_matrix_that_the_kernel_says(gate: str):
    for model, x in [dense(gate), *(convolutional(gate, which) for which in CONVOLUTIONS)]:
        features = deep_gated.paths(model, x).features
        scale = (
            features.square().sum(1).max()
        )  # each entry sums products of rows of at most that square
        error = (
            (deep_gated.path_kernel(model, x, kind="features") - features @ features.T).abs().max()
        )
        assert error <= 1e-13 * scale


def test_features_are_the_inputs_gram_times_lambda_in_a_dense_network():
    model, x = dense("galu")
    # Libraries of matrix products may add in another order: a few units in the last place of sums
    # of four products, none of which is larger than the largest square.
    most = (x @ x.T).abs().max() * deep_gated.path_kernel(model, x)
    difference = deep_gated.path_kernel(model, x, kind="features") - (
        x @ x.T
    ) * deep_gated.path_kernel(model, x)
    assert (difference.abs() <= 2**-50 * most).all()


@for_each("which", [0, 1, 2, 3])
def test_slopes_other_than_zero_and_one_are_multiplied_too(which: int):
    model, x = plain(nn.LeakyReLU(0.25))[which]  # a power of two: still exact
    assert torch.equal(
        deep_gated.path_kernel(model, x, kind="paths"),
        deep_gated.paths(model, x).kernel("activity"),
    )


def test_two_sets_of_inputs_give_the_block_between_them():
    for model, x in (dense("galu"), convolutional("soft_galu", "padded, flattened")):
        whole = deep_gated.path_kernel(model, x, kind="features")
        torch.testing.assert_close(
            deep_gated.path_kernel(model, x[:1], x[1:], kind="features"), whole[:1, 1:]
        )
    model, x = dense("random")
    index = torch.arange(N)
    block = deep_gated.path_kernel(model, x[:1], x[1:], index=index[:1], index2=index[1:])
    assert torch.equal(block, deep_gated.path_kernel(model, x, index=index)[:1, 1:])


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch):
    model, x = convolutional("galu", "circular, averaged")
    whole = deep_gated.path_kernel(model, x)
    for size in (1, 150, 400):
        monkeypatch.setattr(
            importlib.import_module("gatewise_papers.deep_gated.path_kernels.shared_paths"),
            "CHUNK",
            size,
        )
        assert torch.equal(deep_gated.path_kernel(model, x), whole)


def test_a_wide_convolution_counts_what_an_all_ones_network_counts():
    """All weights 1 and all gates the products of both inputs' gates.

    Its output is the number of shared paths.
    """
    model = deep_gated.DeepGatedConvNetwork(
        (3, 8, 8), (16, 32), dense=(20,), gate="galu", dtype=torch.float64
    )
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    gates = [gate[:1] * gate[1:] for gate in model.gates(x)]
    with torch.no_grad():
        for weight in model.strength_parameters():
            weight.fill_(1.0)
        want = model(torch.ones_like(x[:1]), gates=gates).item()
        products = model(x[:1] * x[1:], gates=gates).item()
    assert deep_gated.path_kernel(model, x, kind="paths")[0, 1].item() == want > 1e6
    assert deep_gated.path_kernel(model, x, kind="features")[0, 1].item() == pytest.approx(
        products, rel=1e-11
    )


def test_a_network_of_the_papers_size_is_exact_in_float64():
    """With d = 6 and w = 500: about 10^12 paths, counted against Python's whole numbers."""
    model, x = deep_gated.DeepGatedNetwork(20, 500, 6, gate="galu"), torch.randn(3, 20)
    kernel = deep_gated.path_kernel(model, x)
    for s in range(3):
        for t in range(3):
            layers = [int((g[s] * g[t]).sum()) for g in model.gates(x)]
            assert int(kernel[s, t]) == math.prod(layers)
    assert kernel.max() > 2**24  # float32 could not


def test_beyond_two_to_the_53_a_warning_says_so_and_the_logarithm_does_not_mind():
    model, x = deep_gated.DeepGatedNetwork(3, 200, 12, gate="galu"), torch.randn(2, 3)
    with pytest.warns(InexactCountWarning, match=r"rounded.*log_lambda"):
        kernel = deep_gated.path_kernel(model, x)
    exact = [math.prod(int((g[s] * g[0]).sum()) for g in model.gates(x)) for s in (0, 1)]
    assert exact[0] > 2**53
    assert kernel[:, 0].tolist() == pytest.approx(exact, rel=11 * 2**-53)  # eleven roundings
    logs = deep_gated.path_kernel(model, x, kind="log_lambda")[:, 0].tolist()
    assert logs == pytest.approx(
        [math.log(each) if each else -math.inf for each in exact], rel=1e-14
    )


def test_beyond_float64_there_is_an_error_and_the_logarithm_still_has_an_answer():
    model, x = deep_gated.DeepGatedNetwork(3, 64, 400, gate="linear"), torch.randn(2, 3)
    with pytest.raises(ArgumentError, match=r"beyond float64.*log_lambda"):
        deep_gated.path_kernel(model, x)
    logs = deep_gated.path_kernel(model, x, kind="log_lambda")
    assert logs.flatten().tolist() == pytest.approx([399 * math.log(64)] * 4, rel=1e-14)


@for_each("which", CONVOLUTIONS)
def test_the_logarithm_is_that_of_lambda(which: str):
    model, x = convolutional("galu", which)
    counts, logs = (
        deep_gated.path_kernel(model, x),
        deep_gated.path_kernel(model, x, kind="log_lambda"),
    )
    assert torch.equal(counts == 0, logs == -math.inf)
    torch.testing.assert_close(logs[counts > 0], counts[counts > 0].log(), rtol=1e-13, atol=1e-13)


def test_counts_of_real_gates_are_not_called_inexact():
    model = deep_gated.DeepGatedNetwork(3, 200, 12, gate="soft_galu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = deep_gated.path_kernel(model, torch.randn(2, 3))
    assert kernel.isfinite().all() and kernel.diagonal().min() > 0


def test_random_gates_have_the_kernel_that_lemma_2_4_says_on_average():
    """On average lambda(s, s) is (mu w)^(d-1) and lambda(s, s') is (mu^2 w)^(d-1)."""
    n, w, d, mu = 60, 40, 3, 0.5
    model = deep_gated.DeepGatedNetwork(2, w, d, gate="random", mu=mu, examples=n)
    kernel = deep_gated.path_kernel(model, torch.randn(n, 2), index=torch.arange(n))
    own, cross = kernel.diagonal(), kernel[::2, 1::2].diagonal()  # independent pairs
    for values, mean in ((own, mu * w), (cross, mu**2 * w)):
        assert abs(values.mean().item() - mean ** (d - 1)) < 4 * values.std().item() / math.sqrt(
            len(values)
        )


def test_it_leaves_no_graph_and_no_gradient_behind():
    model, x = dense("soft_galu")
    kernel = deep_gated.path_kernel(model, x.requires_grad_())
    assert not kernel.requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())
    with torch.no_grad():
        assert torch.equal(deep_gated.path_kernel(model, x), kernel)


def test_it_is_one_function_under_both_names():
    assert deep_gated.path_kernel is path_kernel_name


@for_each(
    ("options", "match"),
    [
        ({"kind": "mu"}, "kind"),
        ({"index2": torch.arange(N)}, "index2"),
        ({"x": torch.ones(3).double()}, "batch"),
        ({"x": torch.ones(2, 3, dtype=torch.int64)}, "floating"),
        ({"x": torch.ones(0, 3).double()}, "batch"),
        ({"x": torch.ones(2, 2, 3).double()}, "batch"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict, match: str):
    model, x = dense("galu")
    with pytest.raises(ArgumentError, match=match):
        deep_gated.path_kernel(**{"model": model.double(), "x": x, **options})


def test_random_gates_and_biases_are_explained():
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        deep_gated.path_kernel(*dense("random"))
    with pytest.raises(ArgumentError, match="a path starts at an input"):
        deep_gated.path_kernel(nn.Linear(3, 1), torch.ones(2, 3))


@for_each("model", [nn.Sequential(), nn.Sequential(nn.ReLU())])
def test_a_network_without_weights_is_refused(model: nn.Module):
    with pytest.raises(ArgumentError, match="no layer of weights"):
        deep_gated.path_kernel(model, torch.ones(2, 3))
    with pytest.raises(ArgumentError, match="no layer of weights"):
        deep_gated.paths(model, torch.ones(2, 3))


def folded(*weights: float) -> nn.Module:
    """A network of absolute values, whose gates are the signs of its responses.

    These weights for all inputs alike.
    """
    width = len(weights)
    layers = [
        nn.Linear(1, width, bias=False),
        *(nn.Linear(width, width, bias=False) for _ in range(8)),
    ]
    parts = [part for layer in layers for part in (layer, gw.nn.Abs())]
    with torch.no_grad():
        layers[0].weight.copy_(torch.tensor(weights).unsqueeze(1))
        for layer in layers[1:]:
            layer.weight.copy_(torch.eye(width))
    return nn.Sequential(*parts, nn.Linear(width, 1, bias=False))


def test_a_negative_lambda_has_no_logarithm_and_a_positive_one_has():
    """Inputs of opposite sign have opposite first gates, and equal gates after them."""
    model, x = folded(1.0, 2.0, 3.0), torch.tensor([[1.0], [-1.0]])
    assert deep_gated.path_kernel(model, x).tolist() == [[3.0**9, -(3.0**9)], [-(3.0**9), 3.0**9]]
    with pytest.raises(ArgumentError, match="2 negative numbers"):
        deep_gated.path_kernel(model, x, kind="log_lambda")
    logs = deep_gated.path_kernel(model, x[:1], kind="log_lambda")
    assert logs.item() == pytest.approx(9 * math.log(3), rel=1e-14)


def test_a_negative_count_is_called_inexact_as_a_positive_one_is():
    model, x = folded(*torch.rand(77).add(1).tolist()), torch.tensor([[1.0], [-1.0]])
    with pytest.warns(InexactCountWarning, match="rounded"):
        found = deep_gated.path_kernel(model, x[:1], x[1:])
    assert found.item() == pytest.approx(-(77**9), rel=9 * 2**-53)
    assert 77**9 > 2**53


@pytest.mark.parametrize(
    "unit", [nn.ReLU(), nn.SiLU(), gw.nn.Abs()], ids=lambda unit: type(unit).__name__
)
def test_gates_in_front_of_the_first_layer_count_too(unit: nn.Module):
    for model, x in plain(unit)[:3]:
        gated = nn.Sequential(unit, model)
        want = deep_gated.paths(gated, x).kernel()
        torch.testing.assert_close(
            deep_gated.path_kernel(gated, x, kind="features"), want, rtol=1e-11, atol=1e-12
        )
