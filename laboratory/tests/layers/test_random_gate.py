"""Fixed random gates: drawn once, kept, found by example index, and of no use for new inputs."""

import copy
import math

import pytest
import torch
from gatewise_papers.deep_gated import OutsideGatedConv2d, OutsideGatedLinear, RandomGate
from loops import for_each

from gatewise.errors import ArgumentError


def test_an_example_has_the_same_gates_every_time_and_wherever_it_is_in_the_batch():
    gate = RandomGate(50, 20)
    first = gate(torch.tensor([3, 7, 49]))
    assert torch.equal(gate(torch.tensor([49, 3, 3])), first[[2, 0, 0]])
    assert torch.equal(gate.train()(torch.tensor([3])), gate.eval()(torch.tensor([3])))


def test_gates_are_independent_coins_of_probability_mu():
    torch.manual_seed(0)
    n, w, mu = 400, 300, 0.3
    gates = RandomGate(n, w, mu=mu)(torch.arange(n)).double()
    assert set(gates.unique().tolist()) == {0.0, 1.0}
    # five standard deviations of a mean of n w coins, and of the agreement of two examples
    assert abs(gates.mean().item() - mu) < 5 * math.sqrt(mu * (1 - mu) / (n * w))
    overlap = (gates[: n // 2] * gates[n // 2 :]).mean().item()
    assert abs(overlap - mu**2) < 5 * math.sqrt(mu**2 * (1 - mu**2) / (n * w / 2))


def test_one_byte_is_stored_per_example_and_unit():
    gate = RandomGate(11, (3, 4, 5))
    assert gate.open.numel() * gate.open.element_size() == 11 * 3 * 4 * 5
    assert "bytes=660" in repr(gate)


def test_gates_travel_with_the_state_and_with_copies():
    gate, index = RandomGate(9, 6), torch.arange(9)
    other = RandomGate(9, 6)
    assert not torch.equal(other(index), gate(index))
    other.load_state_dict(gate.state_dict())
    assert list(gate.state_dict()) == ["open"]
    assert torch.equal(other(index), gate(index))
    assert torch.equal(copy.deepcopy(gate)(index), gate(index))


def test_gates_are_unchanged_by_half_precision():
    gate = RandomGate(9, 6)
    assert torch.equal(copy.deepcopy(gate).half()(torch.arange(9)), gate(torch.arange(9)))


def test_the_same_seed_gives_the_same_gates():
    torch.manual_seed(3)
    first = RandomGate(9, 6)
    torch.manual_seed(3)
    assert torch.equal(first.open, RandomGate(9, 6).open)


@for_each("mode", ["train", "eval"])
def test_an_input_without_an_index_is_told_that_gates_do_not_extend_to_it(mode: str):
    layer = getattr(OutsideGatedLinear(4, 6, gate=RandomGate(9, 6)), mode)()
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        layer(torch.ones(2, 4))


@for_each("index", [[0, 9], [-1, 0]])
def test_an_index_outside_the_training_set_is_told_the_same(index: list[int]):
    with pytest.raises(
        ArgumentError,
        match=r"indices 0 to 8 of training examples.*do not extend to test inputs",
    ):
        RandomGate(9, 6)(torch.tensor(index))


@for_each("index", [torch.ones(2), torch.ones(2, 2, dtype=torch.int64), [0, 1], torch.tensor(1)])
def test_what_is_not_an_index_is_refused(index):
    with pytest.raises(ArgumentError, match="1-dimensional tensor of integers"):
        RandomGate(9, 6)(index)


def test_one_index_per_row_is_needed():
    layer = OutsideGatedLinear(4, 6, gate=RandomGate(9, 6))
    with pytest.raises(ArgumentError, match="different shapes"):
        layer(torch.ones(3, 4), torch.tensor([0, 1]))


def test_a_sequence_is_not_silently_gated_by_position():
    layer = OutsideGatedLinear(4, 6, gate=RandomGate(9, 6))
    with pytest.raises(ArgumentError, match="different shapes"):
        layer(torch.ones(2, 2, 4), torch.tensor([0, 1]))


@for_each("units", [(3, 5, 5), (3, 1, 1)])
def test_convolutions_have_coins_per_position_or_per_channel(units: tuple[int, ...]):
    layer = OutsideGatedConv2d(2, 3, 3, padding=1, gate=RandomGate(4, units))
    x, index = torch.randn(2, 2, 5, 5), torch.tensor([3, 0])
    want = torch.nn.functional.conv2d(x, layer.weight, padding=1) * layer.gate.open[index]
    assert torch.equal(layer(x, index), want)


@for_each(
    "options",
    [
        {"examples": 0},
        {"examples": 2.5},
        {"units": 0},
        {"units": (3, -1)},
        {"mu": 0.0},
        {"mu": 1.5},
        {"mu": True},
    ],
)
def test_sizes_and_probabilities_that_make_no_sense_are_refused(options: dict):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        RandomGate(**{"examples": 9, "units": 6, **options})


def test_a_random_gate_asked_for_by_name_says_how_to_make_one():
    with pytest.raises(ArgumentError, match=r"RandomGate\(examples, units\)"):
        OutsideGatedLinear(4, 6, gate="random")


def test_reset_parameters_of_the_layer_throws_the_coins_again():
    layer = OutsideGatedLinear(4, 60, gate=RandomGate(9, 60))
    before = layer.gate.open.clone()
    layer.reset_parameters()
    assert not torch.equal(layer.gate.open, before)


def test_a_layer_made_on_the_meta_device_is_filled_by_reset_parameters():
    with torch.device("meta"):
        layer = OutsideGatedLinear(4, 60, gate=RandomGate(9, 60))
    assert layer.gate.open.is_meta
    layer.to_empty(device="cpu")
    layer.gate.open.zero_()
    layer.reset_parameters()
    assert 0 < layer.gate.open.sum() < 540
