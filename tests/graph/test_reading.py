"""Models are read as they run.

Every activation call is a site, whoever makes it, and the model is left alone.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.graph import (
    activation_sites,
    find_sites,
    read_by_export,
    read_by_tracing,
    replacing,
    run_graph,
    split_example,
)


class LongGELU(nn.Module):
    """Written out: many operations, one site."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.04 * x**3)))


class ActInNorm(nn.BatchNorm2d):
    def __init__(self, width: int):
        super().__init__(width)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.act(super().forward(x))


class Every(nn.Module):
    """One site of each kind."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 6, 3, padding=1), ActInNorm(6)
        self.conv, self.act = nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(inplace=True)
        self.down, self.up, self.long = nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1), LongGELU()
        self.head = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.stem(x))
        y = self.act(self.conv(x))
        y = self.act(self.conv(y) + x)
        y = y * torch.sigmoid(self.up(F.relu(self.down(y.mean((2, 3), keepdim=True)))))
        return self.head(self.long(y).mean((2, 3)))


def every() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Every().eval(), torch.randn(2, 3, 8, 8)


def test_every_kind_of_call_is_a_site_with_its_place_role_and_neighbours():
    model, x = every()
    found = {site.name: site for site in gw.find_sites(model, x)}
    facts = {name: (site.kind, site.op, site.role, site.channels) for name, site in found.items()}
    assert facts == {
        "norm.act": ("hidden-in-norm", "relu", "stem", 6),
        "act": ("reused", "relu", "block-inner", 6),
        "act@1": ("reused", "relu", "block-out", 6),
        "(model):relu#0": ("functional", "relu", "squeeze-excite", 2),
        "(model):sigmoid#1": ("functional", "sigmoid", "gate", 6),
        "long": ("module", "composite", "other", 6),
    }
    assert found["norm.act"].producers == ("stem",) and found["norm.act"].consumers == (
        "conv",
        "down",
        "head",
    )
    assert [site.depth for site in found.values()] == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_an_in_place_call_is_read_by_everything_that_reads_its_tensor_later():
    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x)
            y.relu_()  # nothing is done with what it returns
            return self.b(y) + y

    graph = find_sites(InPlace(), torch.randn(2, 4))
    found = graph.readings["eval"].site_nodes["(model):relu#0"]
    assert {user.op for user in found.output.users} == {"linear", "add"}


def test_both_readers_find_the_same_sites():
    model, x = every()
    for mode in ("eval", "train"):
        read = [
            activation_sites(reader(model, (x,), {}, mode=mode), model)
            for reader in (read_by_export, read_by_tracing)
        ]
        one, other = (
            [(each.path, each.call, each.kind, each.op) for each in found] for found in read
        )
        assert one == other


class BranchOnValue(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.silu(self.a(x))
        return F.relu(self.b(x)) if x.sum() > 0 else x


def test_a_model_that_export_refuses_is_traced_and_the_limit_is_said():
    graph = gw.find_sites(BranchOnValue(), torch.randn(2, 4))
    assert graph.sites[0].op == "silu"
    assert (
        all("only the branches that this example takes" in note for note in graph.notes)
        and graph.notes
    )


def test_parameters_of_a_traced_graph_are_the_models_own():
    reading = find_sites(BranchOnValue(), torch.randn(2, 4)).readings["eval"]
    assert {"a.weight", "a.bias"} <= {node.name for node in reading.graph if node.op == "parameter"}


def test_a_graph_run_by_itself_gives_the_models_output_and_any_tensor_inside():
    model, x = every()
    reading = find_sites(model, x).readings["eval"]
    found = reading.site_nodes["norm.act"]
    with torch.no_grad():
        outputs, kept = run_graph(reading.graph, model, (x,), {}, keep=[found.output])
        assert torch.equal(outputs[0], model(x))
        assert torch.equal(kept[found.output], model.norm(model.stem(x)))


def test_a_graph_can_be_run_with_another_function_at_a_site():
    model, x = every()
    reading = find_sites(model, x).readings["eval"]
    with torch.no_grad():
        outputs, _ = run_graph(
            reading.graph,
            model,
            (x,),
            {},
            replace=replacing([(reading.site_nodes["long"], torch.tanh)]),
        )
        model.long = nn.Tanh()
        assert torch.equal(outputs[0], model(x))


def test_reading_changes_neither_modes_nor_buffers_nor_the_random_state():
    model, x = every()
    model.train()
    model.conv.eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    branching, y = BranchOnValue(), torch.randn(2, 4)
    modes, random = [module.training for module in model.modules()], torch.random.get_rng_state()
    for one, example in ((model, x), (branching, y)):
        gw.find_sites(one, example)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), random)


def test_wrappers_of_grad_mode_and_autocast_are_opened():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", enabled=False):
                x = F.silu(self.a(x))
            with torch.no_grad():
                return F.relu(x)

    assert [site.op for site in gw.find_sites(Wrapped(), torch.randn(2, 4))] == ["silu", "relu"]


def test_a_plan_needs_no_weights():
    with torch.device("meta"):
        model = Every()
    assert len(gw.find_sites(model, torch.randn(2, 3, 8, 8, device="meta"))) == 6


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (torch.randn(2, 5, 8, 8), "cannot be run on it"),
        ("no tensor", "a model cannot be called with it"),
        ((), "holds no tensor"),
        ({"wrong": torch.randn(2, 3, 8, 8)}, "cannot be run on it"),
    ],
)
def test_an_example_that_does_not_fit_is_our_error(example: object, words: str):
    with pytest.raises(ArgumentError, match=words):
        gw.find_sites(every()[0], example)


class DistributedDataParallel(nn.Module):
    """Named like torch's wrapper, which needs processes."""


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning"
)  # of torch.jit and torch.ao, used here to be refused
@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda model: torch.compile(model, backend="eager"), "_orig_mod"),
        (lambda model: DistributedDataParallel(), "model.module"),
        (lambda model: nn.Sequential(torch.compile(model, backend="eager")), "compile the result"),
        (lambda model: "model", "torch.nn.Module"),
    ],
)
def test_a_model_that_cannot_be_read_is_refused_with_the_remedy(make, remedy: str):
    with pytest.raises(ArgumentError, match=remedy):
        gw.find_sites(make(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), torch.randn(2, 4))


def test_torch_still_numbers_the_calls_of_a_module_as_we_read_it():
    """A canary: the suffix is not documented."""
    model, x = every()
    program = torch.export.export(model, (x,), strict=False)
    keys = {key for node in program.graph.nodes for key in (node.meta.get("nn_module_stack") or {})}
    assert any(key.endswith("act@1") for key in keys)


def test_split_example_takes_the_three_forms():
    x = torch.zeros(1)
    assert split_example(x) == ((x,), {})
    assert split_example((x, 2)) == ((x, 2), {})
    assert split_example({"x": x}) == ((), {"x": x})
