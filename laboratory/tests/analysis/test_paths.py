"""Every path of a small network.

Their number, strengths, activities, and the output as a sum over them.
"""

import itertools
import json

import pytest
import torch
from analysis.path_networks import CONVOLUTIONS, GATES, convolutional, dense, index_for, plain
from gatewise_papers import deep_gated
from loops import for_each
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError


def test_a_dense_networks_paths_are_walked_as_the_definition_says():
    model, x = dense("soft_galu")
    found = deep_gated.paths(model, x, output=1)
    gates, weights = model.gates(x), [layer.weight for layer in model.weights]
    every = list(itertools.product(range(3), range(4), range(5), range(2)))
    assert len(found) == len(every) == 3 * 4 * 5 * 2
    for p, (i, j, k, m) in enumerate(every):
        strength = weights[0][j, i] * weights[1][k, j] * weights[2][m, k] * weights[3][1, m]
        activity = gates[0][:, j] * gates[1][:, k] * gates[2][:, m]
        assert found.nodes[p].tolist() == [i, j, k, m, 0]
        torch.testing.assert_close(found.strength[p], strength, rtol=1e-14, atol=0)
        torch.testing.assert_close(found.activity[:, p], activity, rtol=1e-14, atol=0)
        torch.testing.assert_close(found.features[:, p], activity * x[:, i], rtol=1e-14, atol=0)


@for_each("gate", GATES)
def test_the_output_is_the_sum_over_paths(gate: str):
    for model, x in [dense(gate), *(convolutional(gate, which) for which in CONVOLUTIONS)]:
        for output in (0, 1):
            found = deep_gated.paths(model, x, output=output, index=index_for(gate))
            torch.testing.assert_close(
                found.output(), model(x, index_for(gate))[:, output], rtol=1e-11, atol=1e-12
            )


@pytest.mark.parametrize(
    "unit", [nn.ReLU(), nn.LeakyReLU(0.3), gw.nn.Abs()], ids=lambda unit: type(unit).__name__
)
def test_the_output_of_a_plain_network_is_the_sum_over_its_paths(unit: nn.Module):
    for model, x in plain(unit):
        torch.testing.assert_close(
            deep_gated.paths(model, x).output(), model(x)[:, 0], rtol=1e-11, atol=1e-12
        )


def test_hard_gates_make_a_path_active_or_not():
    model, x = dense("galu")
    assert set(deep_gated.paths(model, x).activity.unique().tolist()) <= {0.0, 1.0}


def test_a_convolutions_paths_are_those_of_the_dense_layer_it_is():
    conv = nn.Conv1d(1, 2, 2, padding="same", padding_mode="circular", bias=False).double()
    last = nn.Linear(6, 1, bias=False).double()
    x = torch.randn(4, 1, 3, dtype=torch.float64)
    matrix = conv(torch.eye(3, dtype=torch.float64).unsqueeze(1)).flatten(1)  # (3, 6)
    found = deep_gated.paths(nn.Sequential(conv, nn.ReLU(), nn.Flatten(), last), x)
    wired = [(i, j) for i in range(3) for j in range(6) if matrix[i, j] != 0]
    assert found.nodes[:, :2].tolist() == [list(pair) for pair in wired]
    want = torch.stack([matrix[i, j] * last.weight[0, j] for i, j in wired])
    torch.testing.assert_close(found.strength, want, rtol=1e-14, atol=0)


def test_a_kernel_that_wraps_around_joins_two_nodes_twice():
    conv = nn.Conv1d(1, 1, 3, padding="same", padding_mode="circular", bias=False).double()
    model = nn.Sequential(conv, nn.ReLU(), nn.Flatten(), nn.Linear(2, 1, bias=False).double())
    x = torch.randn(3, 1, 2, dtype=torch.float64)
    found = deep_gated.paths(model, x)
    assert len(found) == 2 * 3
    torch.testing.assert_close(found.output(), model(x)[:, 0], rtol=1e-13, atol=1e-14)


def test_a_large_network_says_how_many_paths_it_has_and_what_to_use_instead():
    small, deep = (
        deep_gated.DeepGatedNetwork(784, 100, 6),
        deep_gated.DeepGatedNetwork(784, 100, 600),
    )
    x = torch.randn(2, 784)
    with pytest.raises(ArgumentError, match=r"about 10\^12.9 paths.*path_kernel"):  # 784 * 100^5
        deep_gated.paths(small, x)
    with pytest.raises(ArgumentError, match=r"about 10\^1200.9 paths.*path_kernel"):
        deep_gated.paths(deep, x)
    with pytest.raises(ArgumentError, match=r"got: 78,400,000 paths"):
        deep_gated.paths(deep_gated.DeepGatedNetwork(784, (100, 1000), 3), x)


@for_each("output", [2, -1, 1.0])
def test_an_output_that_is_not_there_is_refused(output):
    with pytest.raises(ArgumentError, match="output"):
        deep_gated.paths(*dense("relu"), output=output)


def test_random_gates_explain_that_they_do_not_extend():
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        deep_gated.paths(*dense("random"))


def test_the_record_is_plain_and_shows_itself():
    found = deep_gated.paths(*dense("galu"))
    plain_form = json.loads(json.dumps(found.to_dict()))
    assert plain_form["count"] == 120 and len(plain_form["features"]) == 4
    assert "120 paths" in found._repr_html_() and "%" in found._repr_html_()


def test_a_network_that_ends_with_several_gated_channels_is_refused():
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.ReLU())
    with pytest.raises(ArgumentError, match="paths end at one output"):
        deep_gated.paths(model, torch.randn(2, 3))


def test_a_kernel_that_is_not_there_is_refused():
    with pytest.raises(ArgumentError, match=r"kind.*'features', 'activity'"):
        deep_gated.paths(*dense("galu")).kernel("lambda")
