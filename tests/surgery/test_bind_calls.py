"""IIEU bound to the convolution before it by rewriting, against the same block written by hand.

Equal bit for bit.
"""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from surgery import bound_blocks
from surgery.bound_blocks import BLOCKS, PAIRS, WIDTH, NormWithActivation
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.binding import bind_calls, pair_calls
from gatewise.surgery.calls import record_calls
from gatewise.surgery.rewrite import Transaction
from gatewise.units.contract import create_unit

BLOCK = pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)


def example(rows=2, seed=4):
    return torch.randn(rows, WIDTH, 7, 7, generator=torch.Generator().manual_seed(seed))


def recorded(model, kind):
    """Producers, calls and activations to silence, for each pair of the table."""
    layers = {name for name, _ in PAIRS[kind]}
    norms = {
        name for name, module in model.named_modules() if isinstance(module, NormWithActivation)
    }
    calls = record_calls(model, (example(),), also=layers | norms)
    activations = [call for call in calls if call.module not in layers | norms]
    pairs = [pair_calls(calls, name, activations[number]) for name, number in PAIRS[kind]]
    return [list(part) for part in zip(*pairs, strict=True)]


def bound(kind):
    torch.manual_seed(7)
    model = kind()
    units = [
        create_unit("iieu_b", channels=WIDTH, eta=0.05 + 0.1 * number)
        for number in range(len(PAIRS[kind]))
    ]
    original = copy.deepcopy(model)
    producers, calls, silenced = recorded(model, kind)
    work = Transaction(model)
    bind_calls(work, producers, calls, units, silenced=filter(None, silenced))
    return model, original, units, work.roll_back


@BLOCK
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_bound_unit_sees_its_layer_and_that_layers_input(kind, training):
    model, original, units, _ = bound(kind)
    got, want = (
        model.train(training)(example()),
        BLOCKS[kind](original.train(training), units, example()),
    )
    assert torch.equal(got, want)
    unbound = [lambda y, x, layer, unit=unit: unit(y) for unit in units]
    assert not torch.allclose(got, BLOCKS[kind](original, unbound, example()))


@BLOCK
def test_gradients_reach_the_layer_through_the_unit(kind):
    model, original, units, _ = bound(kind)
    twins = copy.deepcopy(units)
    model(example()).square().sum().backward()
    BLOCKS[kind](original, twins, example()).square().sum().backward()
    named = dict(original.named_parameters())
    compared = [name for name, _ in model.named_parameters() if name in named]
    assert any(name.endswith("weight") and named[name].dim() == 4 for name in compared)
    for name in compared:
        got, want = model.get_parameter(name).grad, named[name].grad
        assert got is want or torch.equal(got, want), name
    for unit, twin in zip(units, twins, strict=True):
        assert torch.equal(unit.eta.grad, twin.eta.grad)


@BLOCK
def test_every_old_name_is_kept_and_no_layer_is_registered_twice(kind):
    model, original, units, _ = bound(kind)
    old, new = original.state_dict().keys(), model.state_dict().keys()
    assert old <= new
    assert len(new) == len(old) + sum(len(unit.state_dict()) for unit in units)
    model.load_state_dict(original.state_dict(), strict=False)


@BLOCK
def test_copies_see_their_own_layer(kind):
    model, _, _, _ = bound(kind)
    copies = copy.deepcopy(model.eval()), pickle.loads(pickle.dumps(model))
    want = model(example())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    for each in copies:
        assert torch.equal(each(example()), want)


@BLOCK
def test_undo_is_exact(kind):
    model, original, _, undo = bound(kind)
    undo()
    assert [type(module) for module in model.modules()] == [
        type(module) for module in original.modules()
    ]
    assert list(model.state_dict()) == list(original.state_dict())
    assert torch.equal(model(example()), original(example()))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [bound_blocks.Functional, bound_blocks.InASequential])
def test_compile_in_one_graph_and_export(kind):
    model, original, units, _ = bound(kind)
    want = BLOCKS[kind](original.eval(), units, example())
    compiled = torch.compile(model.eval(), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(example()), want, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        program = torch.export.export(model, (example(),), strict=False)
    torch.testing.assert_close(program.module()(example()), want, rtol=1e-5, atol=1e-5)


@BLOCK
def test_threads_do_not_see_each_others_inputs(kind):
    model, original, units, _ = bound(kind)
    model.eval(), original.eval()
    inputs = [example(seed=seed) for seed in range(20)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(model, inputs))
    assert all(
        torch.equal(y, BLOCKS[kind](original, units, x)) for x, y in zip(inputs, got, strict=True)
    )


class Owners(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.inner = bound_blocks.conv(), nn.Sequential(nn.BatchNorm2d(WIDTH), nn.ReLU())

    def forward(self, x):
        return self.inner(self.conv(x))


def test_a_layer_of_another_owner_is_refused():
    model = Owners()
    producer, call = record_calls(model, (example(),), also=["conv"])
    with pytest.raises(ArgumentError, match="not called by the same method of one module"):
        bind_calls(Transaction(model), [producer], [call], [create_unit("iieu_b", channels=WIDTH)])
    assert type(model) is Owners


class Helper(bound_blocks.Convolutions):
    def forward(self, x):
        act = lambda y: self.relu(y)  # noqa: E731  it is what is tested
        return act(self.conv1(x))


def test_a_layer_called_by_another_function_is_refused():
    model = Helper()
    producer, call = record_calls(model, (example(),), also=["conv1"])
    with pytest.raises(ArgumentError, match="not called by the same function"):
        bind_calls(Transaction(model), [producer], [call], [create_unit("iieu_b", channels=WIDTH)])


def test_one_module_at_two_places_of_a_sequential_is_refused():
    relu = nn.ReLU()
    model = nn.Sequential(bound_blocks.conv(), relu, bound_blocks.conv(), relu)
    calls = record_calls(model, (example(),), also=["0"])
    with pytest.raises(ArgumentError, match="one module in several places"):
        bind_calls(
            Transaction(model), calls[:1], calls[1:2], [create_unit("iieu_b", channels=WIDTH)]
        )


def test_a_layer_after_the_activation_is_refused():
    model = bound_blocks.InASequential()
    calls = record_calls(model, (example(),), also=["3"])
    with pytest.raises(ArgumentError, match="comes after the activation"):
        bind_calls(
            Transaction(model), [calls[1]], [calls[0]], [create_unit("iieu_b", channels=WIDTH)]
        )
    assert type(model) is bound_blocks.InASequential


def test_counts_that_differ_and_units_that_are_none_are_our_errors():
    model = bound_blocks.BasicBlock()
    producers, calls, _ = recorded(model, bound_blocks.BasicBlock)
    with pytest.raises(ArgumentError, match="2 producers, 2 calls, 1 units"):
        bind_calls(Transaction(model), producers, calls, [nn.Identity()])
    with pytest.raises(ArgumentError, match="a unit is not a module"):
        bind_calls(Transaction(model), producers, calls, [torch.relu, torch.relu])


def test_a_layer_that_does_not_come_before_is_refused():
    model = bound_blocks.BasicBlock()
    calls = record_calls(model, (example(),), also=["conv1", "conv2"])
    first = next(call for call in calls if call.module == "relu")
    with pytest.raises(ArgumentError, match="conv2 is not called before it"):
        pair_calls(calls, "conv2", first)
