"""Cost against closed forms, torch's own counter, and a unit that is slow on purpose."""

import gc
import time
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

import gatewise as gw
from gatewise.errors import ArgumentError


class Odd(nn.Module):
    """A module in place and called twice, a functional unit, and a two-phase unit of ours."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = (
            nn.Conv2d(3, 8, 3),
            nn.Conv2d(8, 8, 3),
            nn.Conv2d(16, 4, 1),
        )
        self.norm, self.unit, self.both = nn.BatchNorm2d(8), nn.ReLU(inplace=True), gw.nn.CReLU()

    def forward(self, x: Tensor) -> Tensor:
        x = self.unit(self.second(self.unit(self.first(x))))
        return self.third(self.both(F.silu(self.norm(x))))


def test_operations_are_torchs_count_of_layers_and_one_for_each_element_of_the_others() -> None:
    model, x = Odd().eval(), torch.randn(2, 3, 12, 12)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(x)
    first, second = 2 * 8 * 10 * 10, 2 * 8 * 8 * 8
    elementwise = (
        first + second + second + second + 3 * second
    )  # two relu, norm, silu; crelu: relu, neg, relu
    found = gw.cost(model, x, repeats=1)
    assert found.operations == counter.get_total_flops() + elementwise
    assert [site.operations for site in found.sites] == [first, second, second, 3 * second]
    assert [site.name for site in found.sites] == ["unit", "unit@1", "(model):silu#0", "both"]
    assert found.parameters == sum(p.numel() for p in model.parameters()) and found.inputs == 2


class Recurrent(nn.Module):
    """Every kind of recurrent layer, and products by ``einsum``."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True)
        self.gru = nn.GRU(4, 5, batch_first=True, bidirectional=True)
        self.rnn = nn.RNN(10, 6, batch_first=True)
        self.cell = nn.LSTMCell(6, 7)
        self.out = nn.Parameter(torch.randn(7, 2))

    def forward(self, x: Tensor) -> Tensor:
        h = self.rnn(self.gru(self.lstm(x)[0])[0])[0]
        rows = self.cell(h[:, -1])[0]
        both = torch.einsum("...i,ij", rows, self.out)
        return F.relu(both.sum() + torch.einsum("bi,bj,ij->b", rows, both, self.out))


def test_operations_of_recurrent_layers_and_einsum_count() -> None:
    matrices = {"lstm": 0, "gru": 0, "rnn": 0, "cell": 0}
    model = Recurrent().eval()
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and name != "out":
            matrices[name.partition(".")[0]] += weight.numel()
    steps, rows = 2 * 9, 2
    wanted = 2 * steps * (matrices["lstm"] + matrices["gru"] + matrices["rnn"])
    wanted += 2 * rows * matrices["cell"] + 2 * rows * 7 * 2 + 2 * rows * 7 * 2
    found = gw.cost(model, torch.randn(2, 9, 3), repeats=1)
    assert found.operations == wanted + rows + rows  # the addition and the relu


def test_bytes_for_the_backward_pass_are_the_tensors_that_each_derivative_needs() -> None:
    found = gw.cost(Odd(), torch.randn(2, 3, 12, 12), repeats=1)
    first, second = 4 * 2 * 8 * 10 * 10, 4 * 2 * 8 * 8 * 8
    # relu keeps its result, silu its input, crelu both of its halves
    assert [site.saved_bytes for site in found.sites] == [first, second, second, 2 * second]
    image, statistics = 4 * 2 * 3 * 12 * 12, 2 * 4 * 8
    norm_and_silu = second  # the norm's result, which silu keeps; its input is what relu keeps
    layers = image + first + second + statistics + norm_and_silu + 2 * second + 2 * second
    assert found.saved_bytes == layers


def test_a_slow_unit_has_its_share_of_the_time() -> None:
    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            time.sleep(0.02)
            return F.relu(x)

    found = gw.cost(
        nn.Sequential(nn.Linear(4, 4), Slow(), nn.Linear(4, 4), nn.ReLU()),
        torch.randn(2, 4),
        repeats=2,
    )
    slow, quick = found.sites
    assert slow.seconds >= 0.02 and slow.share > 0.7 and quick.share < 0.1
    assert found.seconds >= 0.02 and found.train_seconds is not None and found.train_seconds >= 0.02
    assert found.throughput == pytest.approx(2 / found.seconds)


def test_the_model_is_left_as_it_was() -> None:
    model = Odd()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    gw.cost(model, torch.randn(2, 3, 12, 12, generator=torch.Generator()), repeats=1)
    assert model.training and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters())
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_no_output_of_a_run_is_kept() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.SiLU())
    outputs = []
    for layer in model:  # a sigmoid keeps its output for the backward pass
        layer.register_forward_hook(lambda *call: outputs.append(weakref.ref(call[2])))
    gw.cost(model, torch.randn(2, 3), repeats=1)
    gc.collect()
    assert len(outputs) > 16 and not any(output() is not None for output in outputs)


def test_a_model_that_cannot_train_has_no_bytes_and_others_print_save_and_draw() -> None:
    frozen = Odd().requires_grad_(False)
    found = gw.cost(frozen, torch.randn(2, 3, 12, 12), repeats=1)
    assert (
        found.saved_bytes is None
        and found.train_seconds is None
        and found.sites[0].saved_bytes is None
    )
    assert "inputs/s" in repr(found) and "<pre>" in found._repr_html_() and found.plot() is not None
    assert found.to_dict()["sites"][0]["name"] == "unit"
    single = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    assert gw.cost(single, torch.randn(1, 3), repeats=1).train_seconds is None


def test_what_cannot_be_measured_is_said() -> None:
    with pytest.raises(ArgumentError, match="repeats"):
        gw.cost(Odd(), torch.randn(2, 3, 12, 12), repeats=0)
    with pytest.raises(ArgumentError, match="cannot be run"):
        gw.cost(Odd(), torch.randn(2, 5, 12, 12))
