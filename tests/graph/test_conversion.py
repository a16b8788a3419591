"""Torch's graph becomes ours with all names, arguments, modules and users."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from gatewise.graph import Graph, Node, read_by_export, read_by_tracing


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu_(self.norm(self.conv(x)), 0.1)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x)) * self.scale


READERS = pytest.mark.parametrize("reader", [read_by_export, read_by_tracing])


def graph_of(reader, model: nn.Module, x: Tensor, mode: str = "eval") -> Graph:
    return reader(model, (x,), {}, mode=mode)


def calls(graph: Graph, op: str) -> list[Node]:
    return [node for node in graph if node.op == op]


@READERS
def test_inputs_and_users_are_the_same_edges(reader):
    graph = graph_of(reader, Model(), torch.randn(2, 3, 4, 4))
    for number, node in enumerate(graph):
        assert node.index == number
        for source in node.inputs:
            assert source.index < node.index
            assert source.users.count(node) == 1
        for user in node.users:
            assert user.inputs.count(node) == 1


@READERS
def test_leaves_have_the_names_of_the_model(reader):
    model = Model()
    graph = graph_of(reader, model, torch.randn(2, 3, 4, 4))
    parameters = {node.name for node in calls(graph, "parameter")}
    buffers = {node.name for node in calls(graph, "buffer")}
    assert parameters == dict(model.named_parameters()).keys()
    assert {"block.norm.running_mean", "block.norm.running_var"} <= buffers
    for node in (*calls(graph, "parameter"), *calls(graph, "buffer")):
        tensor = model.state_dict()[node.name]
        assert node.shape == tuple(tensor.shape)
        assert node.floating == tensor.is_floating_point()


@READERS
def test_arguments_have_the_names_of_the_schema_and_defaults(reader):
    graph = graph_of(reader, Model(), torch.randn(2, 3, 4, 4))
    conv = calls(graph, "conv2d")[0]
    assert list(conv.arguments) == [
        "input",
        "weight",
        "bias",
        "stride",
        "padding",
        "dilation",
        "groups",
    ]
    assert conv.arguments["groups"] == 1
    assert list(conv.arguments["padding"]) == [1, 1]
    assert conv.tensor("weight").name == "block.conv.weight"
    assert conv.tensor("bias") is None
    assert calls(graph, "leaky_relu")[0].arguments["negative_slope"] == 0.1


@READERS
def test_a_call_in_place_is_told_from_one_that_is_not(reader):
    graph = graph_of(reader, Model(), torch.randn(2, 3, 4, 4))
    assert all(node.inplace for node in calls(graph, "leaky_relu"))
    assert not any(node.inplace for node in calls(graph, "conv2d"))


@READERS
@pytest.mark.parametrize(
    ("module", "op"),
    [
        (nn.ReLU6(), "relu6"),
        (nn.ReLU6(inplace=True), "relu6"),
        (nn.Hardtanh(0.0, 6.0), "relu6"),
        (nn.Hardtanh(0.0, 5.0), "hardtanh"),
        (nn.Hardtanh(), "hardtanh"),
    ],
)
def test_relu6_has_its_name_though_torch_computes_it_by_hardtanh(reader, module, op):
    x = torch.randn(2, 3, 4, 4)
    graph = graph_of(reader, nn.Sequential(nn.Conv2d(3, 3, 1), module), x)
    assert len(calls(graph, op)) == 1


@READERS
def test_scopes_are_the_modules_and_the_number_of_their_call(reader):
    graph = graph_of(reader, Model(), torch.randn(2, 3, 4, 4))
    assert [node.scope for node in calls(graph, "conv2d")] == [("block.conv", 0), ("block.conv", 1)]
    assert [node.scope for node in calls(graph, "leaky_relu")] == [("block", 0), ("block", 1)]
    assert calls(graph, "mul")[0].scope[0] == ""


@READERS
def test_shapes_are_those_of_the_run(reader):
    graph = graph_of(reader, Model(), torch.randn(2, 3, 5, 7))
    for node in calls(graph, "conv2d"):
        assert node.shape == (2, 3, 5, 7) and node.rank == 4
    assert calls(graph, "input")[0].shape == (2, 3, 5, 7)


@READERS
def test_train_mode_is_in_the_arguments_of_batch_norm(reader):
    model, x = Model(), torch.randn(2, 3, 4, 4)
    for mode in ("eval", "train"):
        graph = graph_of(reader, model, x, mode)
        assert graph.mode == mode
        assert all(node.arguments["training"] == (mode == "train") for node in norms(graph))
    assert model.training


def norms(graph: Graph) -> list[Node]:
    found = calls(graph, "batch_norm")
    assert found
    return found


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", enabled=False), torch.no_grad():
            x = x * 2
        return checkpoint(lambda y: self.layer(y).relu(), x, use_reentrant=False)


def test_wrappers_are_opened():
    graph = graph_of(read_by_export, Checkpointed(), torch.randn(2, 4))
    assert [node.op for node in graph if node.op in ("mul", "linear", "relu", "output")] == [
        "mul",
        "linear",
        "relu",
        "output",
    ]


def test_an_operator_of_another_library_keeps_its_namespace():
    @torch.library.custom_op("gatewise_test::twice", mutates_args=())
    def twice(x: Tensor) -> Tensor:
        return 2 * x

    twice.register_fake(torch.empty_like)

    class Custom(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return twice(x)

    graph = graph_of(read_by_export, Custom(), torch.randn(2, 4))
    assert [node.op for node in graph] == ["input", "gatewise_test::twice", "output"]


def test_several_results_are_taken_apart_by_getitem():
    class Split(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            first, second = x.split(2, dim=1)
            return first - second

    graph = graph_of(read_by_export, Split(), torch.randn(3, 4))
    split = calls(graph, "split")[0]
    assert split.shape is None and split.rank == 0
    assert [node.arguments["index"] for node in calls(graph, "getitem")] == [0, 1]
    assert all(node.shape == (3, 2) for node in calls(graph, "getitem"))
