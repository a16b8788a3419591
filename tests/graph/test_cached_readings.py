"""Inside the context a model is read once; outside of it every time; never a wrong graph."""

from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.graph import (
    cached_readings,
    find_sites,
    read_by_export,
    read_by_tracing,
    run_graph,
)


@pytest.fixture
def exports(monkeypatch) -> Iterator[list[tuple[object, ...]]]:
    """Mode and shapes of every call of torch.export."""
    calls: list[tuple[object, ...]] = []
    export = torch.export.export

    def counted(model: nn.Module, args: tuple[Tensor, ...], *others, **options):
        shapes = tuple(tuple(tensor.shape) for tensor in args if isinstance(tensor, Tensor))
        calls.append((id(model), model.training, shapes))
        return export(model, args, *others, **options)

    monkeypatch.setattr(torch.export, "export", counted)
    return calls


def small() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))


def test_the_same_reading_is_done_once(exports):
    model, x = small(), torch.randn(3, 4)
    with cached_readings():
        first = find_sites(model, x)
        second = find_sites(model, torch.randn(3, 4))
        assert read_by_export(model, (x,), {}, mode="eval") is first.readings["eval"].graph
    assert second.readings["train"].graph is first.readings["train"].graph
    assert [training for _, training, _ in exports] == [False, True]


def test_nothing_is_kept_outside(exports):
    model, x = small(), torch.randn(3, 4)
    with cached_readings():
        find_sites(model, x, modes=("eval",))
    find_sites(model, x, modes=("eval",))
    find_sites(model, x, modes=("eval",))
    with cached_readings():
        find_sites(model, x, modes=("eval",))
    assert len(exports) == 4


def test_an_inner_context_uses_the_readings_of_the_outer_one(exports):
    model, x = small(), torch.randn(3, 4)
    with cached_readings():
        with cached_readings():
            find_sites(model, x, modes=("eval",))
        find_sites(model, x, modes=("eval",))
    assert len(exports) == 1


@pytest.mark.parametrize(
    "other",
    [
        torch.randn(5, 4),
        torch.randn(3, 2, 4),
        torch.randn(4, 3).t(),
        torch.randn(3, 4).requires_grad_(),
    ],
    ids=["rows", "rank", "strides", "requires_grad"],
)
def test_inputs_of_another_signature_are_read_anew(exports, other):
    model = small()
    with cached_readings():
        find_sites(model, torch.randn(3, 4), modes=("eval",))
        graph = find_sites(model, other, modes=("eval",)).readings["eval"].graph
    assert len(exports) == 2
    assert next(node.shape for node in graph if node.op == "input") == tuple(other.shape)


class Repeated(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.times = 1
        self.offset = torch.zeros(4)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        for _ in range(self.times):
            x = self.layer(x).relu() * scale + self.offset
        return x


def outputs(model: nn.Module, *args: object) -> tuple[Tensor, Tensor]:
    """What the graph computes, and what the model does."""
    graph = read_by_export(model, args, {}, mode="eval")
    with torch.no_grad():
        return run_graph(graph, model, args, {})[0][0], model(*args)


def change_attribute(model: Repeated) -> None:
    model.times = 2


def change_constant(model: Repeated) -> None:
    model.offset = torch.ones(4)


def change_constant_in_place(model: Repeated) -> None:
    model.offset += 1


def change_layer(model: Repeated) -> None:
    model.layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def add_hook(model: Repeated) -> None:
    model.layer.register_forward_hook(lambda module, args, output: -output)


def change_forward(model: Repeated) -> None:
    model.layer.forward = lambda x: x.sin()


@pytest.mark.parametrize(
    "change",
    [
        change_attribute,
        change_constant,
        change_constant_in_place,
        change_layer,
        add_hook,
        change_forward,
    ],
)
def test_a_model_that_was_changed_is_read_anew(change):
    torch.manual_seed(0)
    model, x = Repeated(), torch.randn(3, 4)
    with cached_readings():
        before, _ = outputs(model, x)
        change(model)
        after, expected = outputs(model, x)
    assert torch.equal(after, expected)
    assert not torch.equal(after, before)


def test_other_plain_arguments_are_read_anew():
    model, x = Repeated(), torch.randn(3, 4)
    with cached_readings():
        for scale in (1.0, 2.0, 3):
            value, expected = outputs(model, x, scale)
            assert torch.equal(value, expected)


def test_weights_that_are_loaded_meanwhile_are_used_without_reading_again(exports):
    model, x = small(), torch.randn(3, 4)
    other = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    with cached_readings():
        outputs(model, x)
        model.load_state_dict(other.state_dict())
        value, expected = outputs(model, x)
        assert torch.equal(value, expected)
        assert torch.equal(value, other(x))
        model[0].weight = nn.Parameter(torch.zeros(6, 4))
        value, expected = outputs(model, x)
        assert torch.equal(value, expected)
    assert len(exports) == 1


def test_tied_parameters_are_told_from_copies():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), torch.randn(3, 4)
    with cached_readings():
        outputs(model, x)
        model[2].weight = model[0].weight
        value, expected = outputs(model, x)
    assert torch.equal(value, expected)


class BranchOnWeight(nn.Module):
    """Export refuses it; a traced graph has the branch that these values take."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.weight
        return x.relu() if x.sum() > 0 else x.tanh()


def test_a_traced_graph_is_not_reused_for_other_values():
    model, x = BranchOnWeight(), torch.ones(2, 4)

    def op(inputs: Tensor) -> str:
        return find_sites(model, inputs, modes=("eval",)).sites[0].op

    with cached_readings():
        assert op(x) == "relu"
        assert op(-x) == "tanh"
        model.weight.data.neg_()  # no version counter of the parameter notices this
        assert op(x) == "tanh"
        first = read_by_tracing(model, (x,), {}, mode="eval")
        assert read_by_tracing(model, (x.clone(),), {}, mode="eval") is first


def test_a_model_that_export_refuses_is_tried_once(exports):
    model, x = BranchOnWeight(), torch.ones(2, 4)
    with cached_readings():
        first = find_sites(model, x, modes=("eval",))
        second = find_sites(model, x, modes=("eval",))
    assert len(exports) == 1
    assert first.notes == second.notes


def test_an_argument_that_cannot_be_compared_is_read_each_time(exports):
    class Options:
        pass

    class WithOptions(nn.Module):
        def forward(self, x: Tensor, options: object) -> Tensor:
            return x.relu()

    with cached_readings():
        for _ in range(2):
            find_sites(WithOptions(), (torch.ones(2), Options()), modes=("eval",))
    assert len(exports) == 2


def test_a_diagnosis_exports_once_per_mode_and_signature(exports):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 6, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * 16, 12),
        nn.ReLU(),
        nn.Linear(12, 8),
        nn.ReLU(),
        nn.Linear(8, 4),
    )
    x = torch.randn(16, 3, 8, 8)
    diagnosis = gw.diagnose(model, [(x, torch.arange(16) % 4)], seconds=0.5, questions="all")
    assert len(diagnosis.answers) > 10
    mine = [call for call in exports if call[0] == id(model)]
    assert mine and max(Counter(mine).values()) == 1
    assert sum(training for _, training, _ in mine) <= 1
