"""Operations of layers are those that torch counts itself; the others are one for each element."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import gatewise as gw
from gatewise.graph import find_sites, node_operations, parameter_count, read_by_export

MODELS = {
    "conv": (lambda: nn.Conv2d(3, 8, 3, stride=2, padding=1), (2, 3, 9, 9)),
    "grouped": (lambda: nn.Conv2d(4, 8, 3, groups=4), (2, 4, 9, 9)),
    "1d": (lambda: nn.Conv1d(4, 6, 5), (3, 4, 20)),
    "3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 5, 6)),
    "dilated": (lambda: nn.Conv2d(3, 5, 3, dilation=2), (2, 3, 9, 9)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2), (2, 4, 5, 5)),
    "after sigmoid": (
        lambda: nn.Sequential(nn.Sigmoid(), nn.ConvTranspose2d(4, 6, 3)),
        (2, 4, 5, 5),
    ),
    "after relu": (lambda: nn.Sequential(nn.ReLU(), nn.ConvTranspose2d(4, 6, 3)), (2, 4, 5, 5)),
    "linear": (lambda: nn.Linear(7, 5), (4, 7)),
    "linear on rows": (lambda: nn.Linear(7, 5), (2, 3, 7)),
}
LAYERS = ("conv", "linear", "addmm", "mm", "bmm", "matmul", "scaled_dot")


def counted(model: nn.Module, *inputs: Tensor) -> tuple[float, int]:
    """Operations of the layers as we count them, and as torch does."""
    model.eval()
    graph = read_by_export(model, inputs, {}, mode="eval")
    ours = sum(node_operations(node) for node in graph if node.op.startswith(LAYERS))
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*inputs)
    return ours, counter.get_total_flops()


@pytest.mark.parametrize("name", MODELS)
def test_layers_cost_what_torch_counts(name: str):
    make, shape = MODELS[name]
    ours, torchs = counted(make(), torch.randn(shape))
    assert ours == torchs > 0


class Products(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ y.mT + torch.bmm(x, y.mT) + torch.addmm(torch.zeros(4, 4), x[0], y[0].t())


def test_products_of_matrices_cost_what_torch_counts():
    ours, torchs = counted(Products(), torch.randn(3, 4, 5), torch.randn(3, 4, 5))
    assert ours == torchs > 0


def test_attention_costs_what_torch_counts():
    class Attention(nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v)

    query, key = torch.randn(2, 3, 6, 8), torch.randn(2, 3, 9, 8)
    graph = read_by_export(Attention(), (query, key, key), {}, mode="eval")
    ours = sum(node_operations(node) for node in graph)
    by_hand = 2 * (2 * 3 * 6 * 9 * 8) + 2 * (2 * 3 * 6 * 9 * 8)  # scores, and their mixture
    assert ours == by_hand


@pytest.mark.parametrize(
    ("name", "options"),
    [("resnet_cifar", {"depth": 8}), ("mobilenet_v2", {})],
)
def test_a_whole_network_costs_what_torch_counts(name: str, options: dict[str, int]):
    ours, torchs = counted(gw.models.create_model(name, **options), torch.randn(1, 3, 32, 32))
    assert ours == torchs


def test_elementwise_calls_cost_one_operation_for_each_element():
    model = nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    graph = find_sites(model, torch.randn(2, 3, 4, 4)).readings["eval"].graph
    costs = {node.op: node_operations(node) for node in graph if node.inputs}
    assert costs["batch_norm"] == costs["relu"] == 96
    assert costs["max_pool2d"] == 24
    assert costs["flatten"] == costs["output"] == 0


class StoppedGradients(nn.Module):
    """Stops gradients far out, and uses one of its conditions for the value too."""

    def forward(self, x: Tensor, slope: Tensor) -> Tensor:
        far = (x.abs() > 10.0) | (x < -20.0)
        slope = torch.where(far, slope.detach(), slope)
        near = x > 0
        slope = torch.where(near, slope.detach(), slope)
        return torch.where(near, x, slope * x)


def test_what_only_stops_gradients_costs_nothing():
    x = torch.randn(5, 6)
    graph = read_by_export(StoppedGradients(), (x, torch.ones(6)), {}, mode="eval")
    costs = [(node.op, node_operations(node)) for node in graph if node_operations(node)]
    assert costs == [("gt", 30), ("mul", 30), ("where", 30)]


def test_grown_weights_cost_more():
    model = nn.Linear(4, 6, bias=False)
    graph = read_by_export(model, (torch.randn(2, 4),), {}, mode="eval")
    linear = next(node for node in graph if node.op == "linear")
    assert node_operations(linear, factors={"weight": 1.5}) == 1.5 * node_operations(linear)


def test_tied_parameters_count_once():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    assert parameter_count(model) == 16 + 4 + 4
    assert parameter_count(model, {"0.weight": 2.0, "1.bias": 0.5}) == 32 + 4 + 2
