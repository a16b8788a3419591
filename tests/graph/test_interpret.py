"""A graph computes what its model computes, value by value."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.graph import (
    Graph,
    Interpreter,
    find_sites,
    read_by_export,
    read_by_tracing,
    replacing,
    run_graph,
)


class InPlace(nn.Module):
    """Calls in place on a tensor, on a view of it, and on a slice of its input."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x[:, 0] += 1
        y = self.first(x)
        view = y.view(-1, 2, 3)
        y.relu_()
        view[:, 1].mul_(2)
        return self.second(y) + view.sum((1, 2)).unsqueeze(1) + x.sum()


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        y = y.reshape(y.shape[0], 2, 4, *y.shape[2:]).transpose(1, 2).flatten(1, 2)
        return y[:, 1::2].permute(0, 2, 3, 1).movedim(3, 1).contiguous().unsqueeze(0).squeeze(0)


class Pieces(nn.Module):
    """Several results of one call."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 12)

    def forward(self, x: Tensor) -> Tensor:
        a, b, c = self.layer(x).chunk(3, dim=1)
        values, places = torch.max(a, dim=1, keepdim=True)
        first, *others = torch.split(b, [1, 1, 2], dim=1)
        return c * values + first - torch.cat(others, 1).sum(1, keepdim=True) + places


class ManyOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Tensor, *, mask: Tensor, scale: float = 2.0) -> dict[str, object]:
        y = torch.where(mask, self.layer(x), 0.0) * scale
        return {"y": y, "both": (y.relu(), [y.sum()]), "again": y}


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).reshape(3, 4))
        self.plain = torch.full((4,), 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.table + self.plain + torch.ones(4)).softmax(-1)


def attention() -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True)


MODELS = {
    "in place": (InPlace, ((5, 4),)),
    "views": (Views, ((2, 3, 6, 6),)),
    "pieces": (Pieces, ((4, 5),)),
    "constants": (Constants, ((2, 3),)),
    "attention": (attention, ((2, 7, 8),)),
    "recurrent": (lambda: nn.Sequential(nn.RNN(3, 4, batch_first=True)), ((2, 5, 3),)),
}


def flat(value: object) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


@pytest.mark.filterwarnings("ignore:The tensor attributes")  # of export, about nn.RNN
@pytest.mark.parametrize("reader", [read_by_export, read_by_tracing])
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_computes_the_output_of_the_model(name: str, reader):
    torch.manual_seed(0)
    make, shapes = MODELS[name]
    model = make().eval()
    example = tuple(torch.randn(shape) for shape in shapes)
    inputs = tuple(torch.randn(shape) for shape in shapes)
    graph = reader(model, tuple(x.clone() for x in example), {}, mode="eval")
    copies = tuple(x.clone() for x in inputs)
    with torch.no_grad():
        values, _ = run_graph(graph, model, inputs, {})
        expected = flat(model(*(x.clone() for x in inputs)))
    assert len(values) == len(expected)
    for value, wanted in zip(values, expected, strict=True):
        assert torch.allclose(value, wanted, rtol=1e-6, atol=1e-6)
    assert all(torch.equal(x, copy) for x, copy in zip(inputs, copies, strict=True))


def test_keyword_arguments_and_nested_outputs():
    model = ManyOutputs()
    x, mask = torch.randn(2, 3), torch.randn(2, 3) > 0
    graph = read_by_export(model, (x,), {"mask": mask}, mode="eval")
    with torch.no_grad():
        values, _ = run_graph(graph, model, (x,), {"mask": mask})
        expected = flat(model(x, mask=mask))
    assert all(map(torch.equal, values, expected))
    assert len(values) == len(expected) == 4


def random_model(seed: int) -> nn.Module:
    """A random stack of layers on images, some of them in place or with a residual sum."""
    generator = torch.Generator().manual_seed(seed)

    class Residual(nn.Module):
        def __init__(self, inner: nn.Module):
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) + x

    choices = (
        lambda: nn.Conv2d(4, 4, 3, padding=1),
        lambda: nn.BatchNorm2d(4),
        lambda: nn.GroupNorm(2, 4),
        lambda: nn.ReLU(inplace=True),
        lambda: nn.LeakyReLU(0.2, inplace=True),
        nn.GELU,
        nn.Hardswish,
        lambda: nn.MaxPool2d(3, stride=1, padding=1),
        lambda: nn.Conv2d(4, 4, 1, groups=2),
        nn.Sigmoid,
        lambda: Residual(nn.Sequential(nn.Conv2d(4, 4, 1), nn.SiLU())),
        lambda: nn.Upsample(scale_factor=2.0),
    )
    layers = []
    for number in torch.randint(len(choices), (7,), generator=generator).tolist():
        layers.append(choices[number]())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))


@pytest.mark.parametrize("seed", range(8))
def test_every_value_inside_a_random_model_is_the_models(seed: int):
    torch.manual_seed(seed)
    model = random_model(seed).eval()
    x = torch.randn(2, 4, 6, 6)
    graph = read_by_export(model, (x,), {}, mode="eval")
    expected: dict[str, Tensor] = {}

    def record(path: str):
        return lambda module, args, output: expected.update({path: output.clone()})

    handles = [layer.register_forward_hook(record(path)) for path, layer in model.named_children()]
    last = {}  # the last node of each child
    for node in graph:
        if node.scopes and node.op != "output":
            last[node.scopes[0][0] or node.scopes[1][0]] = node
    with torch.no_grad():
        model(x)
        (output,), kept = run_graph(graph, model, (x,), {}, keep=last.values())
    for handle in handles:
        handle.remove()
    compared = 0
    for path, value in expected.items():
        name = next((key for key in last if key == path), None)
        if name is not None:
            assert torch.allclose(kept[last[name]], value, atol=1e-6)
            compared += 1
    assert compared >= 5
    assert torch.allclose(output, model(x), atol=1e-6)


def test_values_are_freed_after_the_last_node_that_reads_them():
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(6)))
    x = torch.randn(2, 4)
    graph = read_by_export(model, (x,), {}, mode="eval")
    alive = []

    def call(node, values):
        computed = [node for node in values if node.op == "linear"]
        alive.append(len(computed))
        return node.overload(*(values[source] for source in node.inputs))

    inputs = {node: x for node in graph if node.op == "input"}
    with torch.no_grad():
        values = Interpreter(graph, model, call).run(inputs)
    assert max(alive) == 1
    assert [node.op for node in values if node.op not in ("parameter", "input")] == ["linear"]


def test_kept_values_are_not_freed_and_skipped_nodes_are_not_run():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(2, 4)
    graph = read_by_export(model, (x,), {}, mode="eval")
    first, relu = (next(node for node in graph if node.op == op) for op in ("linear", "relu"))
    seen = []
    interpreter = Interpreter(
        graph, model, on_value=lambda node, value: seen.append(node), skip={first}, keep={relu}
    )
    inputs = {node: x for node in graph if node.op == "input"} | {first: torch.ones(2, 4)}
    with torch.no_grad():
        values = interpreter.run(inputs)
        assert torch.equal(values[relu], torch.ones(2, 4))
        output = next(node for node in values if node.op == "linear" and node is not first)
        assert torch.allclose(values[output], model[2](torch.ones(2, 4)))
    assert first not in seen and relu in seen


def test_a_replacement_may_read_a_value_that_the_graph_needs_no_more():
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x.exp()
            return F.relu(y + 1).neg()

    model, x = Model(), torch.randn(3, 2)
    graph = read_by_export(model, (x,), {}, mode="eval")
    by_op = {node.op: node for node in graph}
    replace = {by_op["neg"]: ((by_op["exp"], by_op["relu"]), torch.sub)}
    (output,), _ = run_graph(graph, model, (x,), {}, replace=replace)
    assert torch.equal(output, x.exp() - (x.exp() + 1))


def test_replacing_sites_is_replacing_modules():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(2, 4)
    reading = find_sites(model, x).readings["eval"]
    with torch.no_grad():
        replace = replacing([(reading.site_nodes["1"], F.silu)])
        (output,), _ = run_graph(reading.graph, model, (x,), {}, replace=replace)
        model[1] = nn.SiLU()
        assert torch.equal(output, model(x))


def test_kept_values_are_copies_and_told_values_are_not():
    model, x = InPlace(), torch.randn(5, 4)
    graph = read_by_export(model, (x.clone(),), {}, mode="eval")
    linear = next(node for node in graph if node.op == "linear")
    told = []
    with torch.no_grad():
        _, kept = run_graph(graph, model, (x,), {}, keep=[linear])
        run_graph(graph, model, (x,), {}, keep=[linear], tell=lambda node, y: told.append(y))
        x[:, 0] += 1
        y = model.first(x)
    assert torch.equal(kept[linear], y)
    assert told[0].min() >= 0  # relu_ has written into it since


@pytest.mark.parametrize("inputs", [(), (torch.ones(2, 4), torch.ones(2, 4))])
def test_another_number_of_tensors_is_an_error(inputs):
    model, x = nn.Linear(4, 2), torch.ones(2, 4)
    graph = read_by_export(model, (x,), {}, mode="eval")
    with pytest.raises(ArgumentError, match="read with other arguments"):
        run_graph(graph, model, inputs, {})


def test_a_graph_without_output_is_an_error():
    model, x = nn.Linear(4, 2), torch.ones(2, 4)
    graph = read_by_export(model, (x,), {}, mode="eval")
    with pytest.raises(ArgumentError, match="no output"):
        run_graph(Graph(graph.nodes[:-1], "eval", "export"), model, (x,), {})


def test_an_operation_without_an_operator_is_named():
    model, x = nn.Linear(4, 2), torch.ones(2, 4)
    graph = read_by_export(model, (x,), {}, mode="eval")
    for node in graph:
        node.overload = None
    with pytest.raises(ArgumentError, match="cannot be run by itself; got: linear"):
        run_graph(graph, model, (x,), {})
