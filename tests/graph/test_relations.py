"""Neighbours and roles of activations, on networks whose structure is known."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.graph import (
    check_readable,
    consumers,
    find_sites,
    is_never_negative,
    producers,
)
from gatewise.graph.relations import ancestors, multiplies_own_ancestor


class Residual(nn.Module):
    """A stem, two convolutions around a skip connection, and a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        y = F.gelu(self.norm(self.first(x)))
        x = F.elu(self.second(y) + x)
        return self.head(x.mean((2, 3)))


def sites_of(model: nn.Module, x: Tensor):
    return {site.op: site for site in find_sites(model, x, modes=("eval",))}


def test_producers_and_consumers_are_the_nearest_layers():
    sites = sites_of(Residual(), torch.randn(2, 3, 6, 6))
    relations = {op: (site.producers, site.consumers) for op, site in sites.items()}
    assert relations == {
        "relu": (("stem",), ("first", "head")),
        "gelu": (("first",), ("second",)),
        "elu": (("stem", "second"), ("head",)),
    }


def test_roles_of_a_residual_network():
    sites = sites_of(Residual(), torch.randn(2, 3, 6, 6))
    roles = {op: site.role for op, site in sites.items()}
    assert roles == {"relu": "stem", "gelu": "block-inner", "elu": "block-out"}


def test_roles_of_a_transformer_block():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    (site,) = find_sites(layer.eval(), torch.randn(2, 5, 8), modes=("eval",))
    assert (site.role, site.producers, site.consumers) == ("mlp", ("linear1",), ("linear2",))


class SqueezeExcite(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1), nn.Conv2d(2, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.silu(self.conv(x))
        scale = F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))
        return y * torch.sigmoid(self.up(scale))


def test_roles_of_squeeze_and_excite():
    sites = sites_of(SqueezeExcite(), torch.randn(2, 3, 4, 4))
    roles = {op: site.role for op, site in sites.items()}
    assert roles == {"silu": "stem", "relu": "squeeze-excite", "sigmoid": "gate"}


def test_an_activation_of_the_input_has_no_layer_before_it():
    model = nn.Sequential(nn.Tanh(), nn.Linear(3, 2))
    (site,) = find_sites(model, torch.randn(2, 3))
    assert (site.producers, site.consumers, site.role) == (("input",), ("1",), "other")


def test_the_search_for_producers_stops_where_it_is_told():
    graph = find_sites(Residual(), torch.randn(2, 3, 6, 6)).readings["eval"].graph
    by_op = {node.op: node for node in graph}
    relu, add = by_op["relu"], by_op["add"]
    assert [node.scope[0] for node in producers(add)] == ["stem", "second"]
    stopped = producers(add, stop=[relu])
    assert relu in stopped and "stem" not in [node.scope[0] for node in stopped]


def test_ancestors_are_what_a_change_reaches():
    """A node is an ancestor of the output if the output depends on it, and only then."""
    graph = find_sites(Residual(), torch.randn(2, 3, 6, 6)).readings["eval"].graph
    for node in graph:
        before = ancestors(node)
        direct = set(node.inputs)
        for source in node.inputs:
            direct |= ancestors(source)
        assert before == direct
        assert node not in before
        for other in before:
            assert node in others_after(other)


def others_after(node) -> set:
    after, waiting = set(), [node]
    while waiting:
        for user in waiting.pop().users:
            if user not in after:
                after.add(user)
                waiting.append(user)
    return after


def test_consumers_and_producers_are_inverse():
    graph = find_sites(Residual(), torch.randn(2, 3, 6, 6)).readings["eval"].graph
    layers = [node for node in graph if node.op in ("conv2d", "linear")]
    for layer in layers:
        for reader in consumers(layer):
            if reader.op != "output":
                assert layer in producers(reader.inputs[0])


def test_a_gate_multiplies_what_it_was_made_from():
    graph = find_sites(SqueezeExcite(), torch.randn(2, 3, 4, 4)).readings["eval"].graph
    by_op = {node.op: node for node in graph}
    assert multiplies_own_ancestor(by_op["sigmoid"])
    assert not multiplies_own_ancestor(by_op["relu"])


class After(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


@pytest.mark.parametrize("function", [lambda x: x.relu() - 1, lambda x: -x.relu(), torch.tanh])
def test_a_tensor_that_may_be_negative_is_not_called_never_negative(function):
    graph = find_sites(After(function), torch.randn(2, 3)).readings["eval"].graph
    assert not is_never_negative(graph.nodes[-1].inputs[0])


@pytest.mark.parametrize(("number", "answer"), [(0, True), (2.5, True), (-1, False), ("x", False)])
def test_numbers_have_their_own_sign(number, answer):
    assert is_never_negative(number) is answer


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(
    ("change", "problem", "fix"),
    [
        (torch.jit.script, "scripted model", "scripted from"),
        (lambda model: nn.DataParallel(model), "wrapped model", "model.module"),
        (lambda model: nn.Sequential(torch.jit.script(model)), "scripted part", "before scripting"),
    ],
)
def test_a_model_that_cannot_be_read_says_what_to_pass(change, problem: str, fix: str):
    model = change(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with pytest.raises(ArgumentError, match=problem) as error:
        check_readable(model)
    assert fix in str(error.value)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch.quantize_per_tensor is deprecated
def test_a_quantised_part_is_refused():
    class Quantised(nn.Module):
        def __init__(self):
            super().__init__()
            weight = torch.quantize_per_tensor(torch.randn(3), 0.1, 0, torch.qint8)
            self.register_buffer("weight", weight)

    with pytest.raises(ArgumentError, match="quantised part"):
        check_readable(nn.Sequential(nn.Linear(2, 2), Quantised()))


def test_a_plain_model_can_be_read():
    check_readable(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
