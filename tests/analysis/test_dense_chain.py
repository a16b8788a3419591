"""Chains of dense layers.

Recognised only where they are certain, and carried as the graph is carried.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import gatewise as gw
from gatewise.analysis import eval_graph, the_output
from gatewise.analysis.planes import BATCH, dense_chain, dense_chain_of_graph, native_splitter
from gatewise.errors import ArgumentError
from gatewise.graph.trace import Graph, Node

compiled = pytest.mark.skipif(not native_splitter(), reason="no C compiler")


class NotASequence(nn.Module):
    """The same layers, called by code that only a graph shows.

    With a sum of nothing, no chain either.
    """

    def __init__(self, layers: nn.Module, *, zero: bool = False) -> None:
        super().__init__()
        self.layers, self.zero = layers, zero

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return y + 0 * y if self.zero else y


def graph_of(model: nn.Module, x: Tensor) -> tuple[Graph, Node]:
    graph = eval_graph(
        "partition",
        model,
        x[0].expand(BATCH, *x.shape[1:]).to(next(model.parameters()).dtype).clone(),
    )
    return graph, the_output("partition", graph)


def chains() -> dict[str, nn.Module]:
    return {
        "relu": nn.Sequential(
            nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Linear(9, 17), nn.ReLU(), nn.Linear(17, 2)
        ),
        "leaky, no bias": nn.Sequential(
            nn.Linear(6, 40, bias=False), nn.LeakyReLU(0.3), nn.Linear(40, 3)
        ),
        "no unit between": nn.Sequential(
            nn.Linear(6, 4), nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1)
        ),
        "ends in a unit": nn.Sequential(nn.Linear(6, 7), gw.nn.Abs(), nn.Linear(7, 5), nn.ReLU()),
        "one layer": nn.Linear(6, 3),
        "one unit": nn.Sequential(nn.Linear(6, 11), gw.nn.ReLU()),
        "nested, dropout": nn.Sequential(
            nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.PReLU(8)),
            nn.Identity(),
            nn.Linear(8, 2),
        ),
        "wide": nn.Sequential(
            nn.Linear(6, 67),
            nn.ReLU(),
            nn.Linear(67, 33),
            gw.nn.LeakyReLU(slope=-0.4),
            nn.Linear(33, 4),
        ),
    }


def points(*shape: int) -> Tensor:
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("name", list(chains()))
def test_a_chain_gives_what_its_graph_gives(name: str, dtype: torch.dtype):
    torch.manual_seed(1)
    model = chains()[name].to(dtype).eval()
    assert dense_chain(model, points(6)[0]) is not None
    called, summed = NotASequence(model), NotASequence(model, zero=True)
    assert dense_chain(called, points(6)[0]) is None
    graph, output = graph_of(called, points(6))
    assert dense_chain_of_graph(graph, called, output) is not None
    graph, output = graph_of(summed, points(6))
    assert dense_chain_of_graph(graph, summed, output) is None
    ours, *others = (
        gw.analysis.partition(each, points(6), form="native") for each in (model, called, summed)
    )
    others.append(gw.analysis.partition(model, points(6), form="numpy"))
    for other in others:
        np.testing.assert_array_equal(np.sort(ours.patterns), np.sort(other.patterns))
        a, b = np.argsort(ours.patterns), np.argsort(other.patterns)
        np.testing.assert_allclose(ours.maps[a], other.maps[b], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            ours.areas[a], other.areas[b], rtol=1e-9, atol=1e-14 * ours.slice.area
        )
        assert len(ours.neighbours()) == len(other.neighbours())
    assert ours.count == len(set(ours.patterns.tolist()))
    assert ours.count > 5 or name == "one layer"


@compiled
def test_pictures_are_flattened_first():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 2)).double()
    assert dense_chain(model, points(3, 2, 2)[0]) is not None
    assert dense_chain(model[1:], points(3, 2, 12)[0]) is None
    ours, plain = (
        gw.analysis.partition(model, points(3, 2, 2), form=form) for form in ("native", "numpy")
    )
    np.testing.assert_array_equal(np.sort(ours.patterns), np.sort(plain.patterns))


def changed(change: Callable[[nn.Sequential], object]) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    change(model)
    return model


class Twice(nn.Linear):
    """Not what its parent does."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


NOT_CHAINS = {
    "a forward hook": lambda m: m[1].register_forward_hook(lambda module, given, y: 2 * y),
    "a hook before": lambda m: m[2].register_forward_pre_hook(
        lambda module, given: (given[0] + 1,)
    ),
    "a method of its own": lambda m: setattr(
        m[0], "forward", lambda x: nn.functional.linear(x, m[0].weight) + 1
    ),
    "a parametrisation": lambda m: parametrizations.weight_norm(m[0]),
    "a class of its own": lambda m: m.__setitem__(0, Twice(6, 8).double()),
    "two units": lambda m: m.__setitem__(1, nn.Sequential(nn.ReLU(), nn.LeakyReLU(0.1))),
    "a unit first": lambda m: m.__setitem__(0, nn.Sequential(nn.LeakyReLU(0.1), m[0])),
    "another unit": lambda m: m.__setitem__(1, nn.ReLU6()),
    "a norm": lambda m: m.__setitem__(
        1, nn.Sequential(nn.BatchNorm1d(8).double().eval(), nn.ReLU())
    ),
}


@pytest.mark.parametrize("name", list(NOT_CHAINS))
def test_what_is_not_certain_is_read_as_a_graph_and_still_right(name: str):
    model = changed(NOT_CHAINS[name])
    assert dense_chain(model, points(6)[0]) is None
    found = gw.analysis.partition(model, points(6))
    with torch.no_grad():
        theirs = model(found.slice.inputs(found.centroids))
    ours = found.maps[:, 0] + (found.maps[:, 1:] * found.centroids[:, :, None]).sum(1)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


class Own(nn.Module):
    """Dense layers called in ways that are chains, and in ways that are not."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.last = how, nn.Linear(6, 8), nn.Linear(8, 2)
        self.slope = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x)
        match self.how:
            case "functional":
                return self.last(torch.relu(z))
            case "learned slope, in place, reshaped":
                return self.last(
                    nn.functional.prelu(z, self.slope).abs_().reshape(len(x), -1).contiguous()
                )
            case "leaky":
                return nn.functional.leaky_relu_(self.last(nn.functional.leaky_relu(z, -0.2)), 0.4)
            case "skip":
                return self.last(torch.relu(z) + z)
            case "reads an earlier tensor":
                torch.relu(z)
                return self.last(z)
            case "gives an earlier tensor":
                self.last(torch.relu(z))
                return z
            case "computed weight":
                return nn.functional.linear(torch.relu(z), 2 * self.last.weight, self.last.bias)
            case _:
                return self.last(nn.functional.relu6(z))


@compiled
@pytest.mark.parametrize(
    ("how", "is_chain"),
    [
        ("functional", True),
        ("leaky", True),
        ("learned slope, in place, reshaped", False),
        ("skip", False),
        ("reads an earlier tensor", False),
        ("gives an earlier tensor", False),
        ("computed weight", False),
        ("relu6", False),
    ],
)
def test_chains_are_found_in_graphs_only_where_each_call_reads_the_one_before(
    how: str, is_chain: bool
):
    torch.manual_seed(2)
    model = Own(how).double()
    graph, output = graph_of(model, points(6))
    assert (dense_chain_of_graph(graph, model, output) is not None) == is_chain
    ours, plain = (
        gw.analysis.partition(model, points(6), extent=3.0, form=form)
        for form in ("native", "numpy")
    )
    np.testing.assert_array_equal(np.sort(ours.patterns), np.sort(plain.patterns))
    order = np.argsort(ours.patterns), np.argsort(plain.patterns)
    np.testing.assert_allclose(ours.maps[order[0]], plain.maps[order[1]], rtol=1e-12, atol=1e-12)


def test_hooks_of_all_modules_are_seen():
    model = changed(lambda _: None)
    twice = lambda module, given, y: y + 0.002 if isinstance(module, nn.Linear) else None  # noqa: E731
    handle = nn.modules.module.register_module_forward_hook(twice)
    try:
        assert dense_chain(model, points(6)[0]) is None
        ours, plain = (
            gw.analysis.partition(model, points(6)),
            gw.analysis.partition(model, points(6), form="numpy"),
        )
    finally:
        handle.remove()
    np.testing.assert_array_equal(np.sort(ours.patterns), np.sort(plain.patterns))
    assert dense_chain(model, points(6)[0]) is not None


@pytest.mark.parametrize("shape", [(1,), ()])
def test_a_bias_that_is_broadcast_is_every_units(shape: tuple[int, ...]):
    model = changed(
        lambda m: setattr(m[0], "bias", nn.Parameter(torch.full(shape, 0.3, dtype=torch.float64)))
    )
    assert dense_chain(model, points(6)[0]) is None
    ours, plain = (
        gw.analysis.partition(model, points(6)),
        gw.analysis.partition(model, points(6), form="numpy"),
    )
    np.testing.assert_array_equal(np.sort(ours.patterns), np.sort(plain.patterns))


def test_weights_narrower_than_they_say_are_told():
    model = changed(
        lambda m: setattr(m[2], "weight", nn.Parameter(torch.randn(2, 3, dtype=torch.float64)))
    )
    with pytest.raises(ArgumentError, match="cannot be run"):
        gw.analysis.partition(model, points(6))
    with pytest.raises(ArgumentError, match="cannot be run"):
        gw.analysis.partition(changed(lambda m: m.__setitem__(1, nn.PReLU(5).double())), points(6))


def test_dropout_in_train_mode_is_no_chain():
    assert (
        dense_chain(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 2)), points(6)[0])
        is None
    )


def test_a_width_that_does_not_fit_is_told_as_for_any_model():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    assert dense_chain(model, points(6)[0]) is None
    with pytest.raises(ArgumentError, match="6"):
        gw.analysis.partition(model, points(6))


@compiled
def test_a_chain_keeps_to_the_limit():
    torch.manual_seed(1)
    model = chains()["relu"].double()
    count = gw.analysis.partition(model, points(6)).count
    assert gw.analysis.partition(model, points(6), limit=count).count == count
    with pytest.raises(ArgumentError, match="more regions than limit"):
        gw.analysis.partition(model, points(6), limit=count - 1)
