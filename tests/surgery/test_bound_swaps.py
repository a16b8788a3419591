"""IIEU-B and IIEU-DC by ``swap``, compared with the same networks written with ``ConvIIEU``."""

import copy
import operator
import pickle
from dataclasses import replace

import pytest
import torch
from surgery.residual_blocks import (
    BLOCKS,
    WIDTH,
    WITH_SUMS,
    Basic,
    Functional,
    InARow,
    Own,
    TwoMethods,
)
from torch import nn

from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.surgery import Plan, Reason, plan, swap, undo
from gatewise.surgery.applying import receipt
from gatewise.surgery.installing import execute_plan
from gatewise.surgery.proof import SwapFailed
from gatewise.surgery.rewrite import Transaction
from gatewise.surgery.swaps import iieu

BLOCK = pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
SUMS = pytest.mark.parametrize("kind", WITH_SUMS, ids=lambda kind: kind.__name__)


def example(rows=2, seed=3):
    return torch.randn(rows, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def changed(kind, unit="iieu_b", **options):
    """The block, the changed block with its units random, and these units by site."""
    torch.manual_seed(5)
    model = kind().eval()
    work = Transaction(copy.deepcopy(model))
    execute_plan(plan(model, unit, example(), **({"placement": "before"} | options)), work)
    for module in work.units.values():
        for value in module.parameters():
            nn.init.normal_(value, 0.2, 0.3)
    return model, work.model, work.units


def by_hand(kind, model, units, x):
    join = next((module for name, module in units.items() if ":add#" in name), operator.add)
    return BLOCKS[kind](model, units, x, join)


@BLOCK
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_units_at_every_site_see_the_layer_that_the_graph_names(kind, training):
    model, new, units = changed(kind)
    twins = copy.deepcopy(units)
    got, want = (
        new.train(training)(example()),
        by_hand(kind, model.train(training), twins, example()),
    )
    # By hand the unit runs as separate operations, which add in another order.
    torch.testing.assert_close(got, want, rtol=2.0**-18, atol=2.0**-18)
    assert not torch.allclose(got, model(example()))


@SUMS
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_coupler_takes_the_place_of_each_addition(kind, training):
    model, new, units = changed(kind, "iieu_dc", reduction=4)
    assert sum(":add#" in name for name in units) == 1
    got, want = (
        new.train(training)(example()),
        by_hand(kind, model.train(training), copy.deepcopy(units), example()),
    )
    torch.testing.assert_close(got, want, rtol=2.0**-18, atol=2.0**-18)


@BLOCK
def test_gradients_of_layers_and_units_are_those_of_the_network_written_by_hand(kind):
    model, new, units = changed(kind)
    twins = copy.deepcopy(units)
    new(example()).square().sum().backward()
    by_hand(kind, model, twins, example()).square().sum().backward()
    pairs = [(new.get_parameter(name), value) for name, value in model.named_parameters()]
    for name, unit in units.items():
        pairs += zip(unit.parameters(), twins[name].parameters(), strict=True)
    for mine, theirs in pairs:
        # A gradient is a sum over the batch and its places: its error is relative to its largest
        # entries, and the compiled block adds in another order than the modules.
        size = float(theirs.grad.abs().max())
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=0, atol=2.0**-18 * size)


@pytest.mark.slow
@BLOCK
def test_old_names_stay_and_checkpoints_of_the_original_load(kind):
    torch.manual_seed(1)
    model = kind()
    new = swap(model, "iieu_b", example(), placement="before")
    assert model.state_dict().keys() <= new.state_dict().keys()
    torch.manual_seed(2)
    other = kind()
    new.load_state_dict(other.state_dict())
    again = swap(other, "iieu_b", example(), placement="before")
    assert torch.equal(new.eval()(example()), again.eval()(example()))
    new.load_state_dict(again.state_dict())


@BLOCK
def test_undo_of_a_copy_gives_the_original_back(kind):
    torch.manual_seed(1)
    model = kind().eval()
    new = pickle.loads(
        pickle.dumps(copy.deepcopy(swap(model, "iieu_b", example(), placement="before")))
    )
    undone = undo(new)
    assert [type(module) for module in undone.modules()] == [
        type(module) for module in model.modules()
    ]
    assert list(undone.state_dict()) == list(model.state_dict())
    assert torch.equal(undone(example()), model(example()))


@SUMS
def test_a_plan_from_text_is_the_same_plan_and_the_receipt_says_what_was_done(kind):
    torch.manual_seed(1)
    model = kind().eval()
    made = plan(model, "iieu_dc", example(), reduction=4)
    new = Plan.from_json(made.to_json()).apply(copy.deepcopy(model), example=example())
    torch.manual_seed(9)
    direct = made.apply(model, inplace=False)
    torch.manual_seed(9)
    again = Plan.from_json(made.to_json()).apply(model, inplace=False, example=example())
    assert torch.equal(again(example()), direct(example()))
    found = receipt(direct)
    assert (
        found.proof is not None
        and found.proof.against_graph is not None
        and found.proof.against_graph <= 1e-6
    )
    count = sum(value.numel() for value in new.parameters())
    assert (
        found.parameters
        == (sum(value.numel() for value in model.parameters()), count)
        == made.parameters
    )


def test_after_an_addition_a_site_is_refused_unless_its_unit_may_stand_before():
    model = Basic().eval()
    made = plan(model, "iieu_b", example())
    assert [entry.site for entry in made.swapped] == ["relu"]
    assert [(entry.site, entry.reason) for entry in made.refused] == [
        ("relu@1", Reason.SUMMED.name)
    ]
    moved = plan(model, "iieu_b", example(), placement="before")
    assert [entry.moved for entry in moved.swapped] == [False, True] and len(
        moved.swapped[1].bindings
    ) == 2


class Refused(nn.Module):
    """Sites that no one layer makes, and one layer that is not torch's own."""

    class Standardised(nn.Conv2d):
        """A layer whose filters are not those it holds."""

        def forward(self, input):
            return self._conv_forward(input, self.weight - self.weight.mean(), self.bias)

    def __init__(self):
        super().__init__()
        self.a, self.b, self.act = nn.Conv2d(3, 8, 1), nn.Conv2d(3, 8, 1), nn.ReLU()
        self.c, self.act1 = Refused.Standardised(16, 8, 1), nn.ReLU()
        self.act2, self.head, self.act3 = nn.ReLU(), nn.Conv2d(8, 8, 1), nn.ReLU()

    def forward(self, x):
        y = self.act(torch.cat((self.a(x), self.b(x)), 1))
        y = self.act2(self.act1(self.c(y)))
        z = self.head(y)
        return self.act3(z) + z


@pytest.mark.slow
def test_every_refusal_has_a_reason_of_the_closed_list():
    made = plan(Refused(), "iieu_b", example())
    reasons = {entry.site: entry.reason for entry in made.refused}
    assert reasons == {"act": "JOINED", "act1": "NO_PRODUCER", "act2": "NO_PRODUCER"}
    assert [entry.site for entry in made.swapped] == ["act3"]
    sums = {
        entry.site: entry.change
        for entry in plan(Refused(), "iieu_dc", example()).entries
        if ":add#" in entry.site
    }
    assert sums == {"(model):add#0": "refuse"}  # 8 channels, and a reduction of 16


def test_a_branch_that_is_read_elsewhere_gets_no_unit():
    class Leaky(Functional):
        def forward(self, x):
            y = self.conv2(self.stem(x))
            return torch.relu(y + self.conv1(y))

    made = plan(Leaky(), "iieu_dc", example())
    assert {entry.site: entry.reason for entry in made.refused} == {"(model):relu#0": "BRANCH"}
    assert [entry.site for entry in made.swapped] == ["(model):add#0"]


def test_sites_and_additions_are_chosen_by_where():
    made = plan(Own(), "iieu_dc", example(), where="*add#*")
    assert [entry.site for entry in made.swapped] == ["(model):add#0"]
    assert [entry.change for entry in made.entries] == ["leave", "leave", "swap"]
    only = plan(Own(), "iieu_dc", example(), where="body.*")
    assert [entry.site for entry in only.swapped] == ["body.2"]


@pytest.mark.parametrize(
    ("unit", "options", "says"),
    [
        ("iieu_b", {"placement": "between"}, "there is no placement of that name"),
        ("iieu_b", {"reduction": 4}, "there is no option of that name"),
        ("iieu_dc", {"channels": 4}, "there is no option of that name"),
    ],
)
def test_options_that_do_not_exist_are_named(unit, options, says):
    with pytest.raises(UnknownNameError, match=says):
        plan(Basic(), unit, example(), **options)


def test_a_unit_that_preserves_nothing_cannot_be_asked_to():
    with pytest.raises(ArgumentError, match="cannot give back this activation's values"):
        plan(Basic(), "iieu_b", example(), preserve=True)


def test_options_reach_every_unit():
    _, _, units = changed(
        Own, "iieu_dc", eta=0.3, term_b="affine", reduction=2, variant="mobilenet"
    )
    assert {
        unit.start for name, unit in units.items() if ":add#" not in name and hasattr(unit, "start")
    } == {0.3}
    join = units["(model):add#0"]
    assert (join.channels, join.reduction, join.variant) == (WIDTH, 2, "mobilenet")


def test_a_unit_bound_to_the_wrong_layer_is_found_by_the_proof(monkeypatch):
    real = iieu.bind_calls

    def wrong(work, sources, calls, units, **more):
        real(work, [replace(sources[0], module="0"), *sources[1:]], calls, units, **more)

    monkeypatch.setattr(iieu, "bind_calls", wrong)
    model = nn.Sequential(
        nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.ReLU()
    ).eval()
    names = list(model.state_dict())
    with pytest.raises(SwapFailed, match="computes something else"):
        swap(model, "iieu_b", example(), inplace=True)
    assert type(model) is nn.Sequential and list(model.state_dict()) == names


def test_an_exception_while_binding_leaves_the_model_as_it_was(monkeypatch):
    real = iieu.bind_calls

    def before(*_, **__):
        raise RuntimeError("stopped")

    def after(*args, **more):
        real(*args, **more)
        raise RuntimeError("stopped")

    for fail in (before, after):
        model = Basic()
        with monkeypatch.context() as patch:
            patch.setattr(iieu, "bind_calls", fail)
            with pytest.raises(RuntimeError, match="stopped"):
                swap(model, "iieu_dc", example(), inplace=True)
        assert [type(module) for module in model.modules()] == [
            type(module) for module in Basic().modules()
        ]
        assert list(model.state_dict()) == list(Basic().state_dict())


@pytest.mark.slow
def test_compile_in_one_graph_and_export():
    _, new, _ = changed(TwoMethods)
    want = new.eval()(example())
    compiled = torch.compile(new, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(example()), want, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        program = torch.export.export(new, (example(),), strict=False)
    torch.testing.assert_close(program.module()(example()), want, rtol=1e-5, atol=1e-5)


def test_a_sequential_shows_its_own_children_first():
    _, new, _ = changed(Basic)
    assert [name for name, _ in new.downsample.named_children()] == ["0", "1", "gw"]
    _, row, _ = changed(InARow)
    assert len(row) == 9


@pytest.mark.slow
@pytest.mark.networks
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)
@pytest.mark.parametrize(("name", "sites", "sums"), [("tv:resnet18", 17, 8), ("hf:RegNet", 13, 3)])
def test_real_networks_get_a_unit_at_every_site_and_a_coupler_at_every_addition(name, sites, sums):
    from zoo import build

    model, given = build(name)
    made = plan(model, "iieu_dc", given)
    assert not [entry for entry in made.refused if entry.reason != "NARROW"]
    assert sum(entry.kind != "addition" for entry in made.swapped) == sites
    new = made.apply(model, inplace=False)
    found = receipt(new).proof
    assert found is not None and found.against_graph is not None and found.against_graph <= 1e-5
    assert sum(entry.kind == "addition" for entry in made.entries) == sums
