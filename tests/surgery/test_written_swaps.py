"""Activations that the code writes with several calls are one site, swapped as a whole."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError


class Written(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.sigmoid = nn.Linear(8, 8), nn.Linear(8, 3), nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.act(self.first(x)))

    def act(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class SquareMethod(Written):
    def act(self, x):
        return F.relu(x).square()


class PowFunction(Written):
    def act(self, x):
        return torch.pow(F.relu(x), 2)


class PowOperator(Written):
    def act(self, x):
        return F.relu(x) ** 2


class SquaredLeaky(Written):
    def act(self, x):
        return F.leaky_relu(x, 0.5).square()


class TimesSigmoid(Written):
    def act(self, x):
        return x * torch.sigmoid(x)


class InTwoStatements(Written):
    def act(self, x):
        gate = x.sigmoid()
        return gate * x


class TimesModule(Written):
    def act(self, x):
        return x * self.sigmoid(x)


class QuickGELU(Written):
    def act(self, x):
        return x * torch.sigmoid(1.702 * x)


class ErfGELU(Written):
    def act(self, x):
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


class ErfAssigned(Written):
    def forward(self, x):
        h = self.first(x)
        h = h * 0.5 * (1.0 + torch.erf(h / 1.41421356))
        return self.last(h)


class TanhGELU(Written):
    def act(self, x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Mish(Written):
    def act(self, x):
        return x * torch.tanh(F.softplus(x))


class HardSwish(Written):
    def act(self, x):
        return x * F.relu6(x + 3) / 6


class Cube(Written):
    def act(self, x):
        return F.relu(x) ** 3


class Nested(Written):
    def forward(self, x):
        return self.last(F.relu(self.first(x)).square())


class Squared(Written):
    """The text of the last call does not have the activation's input."""

    def act(self, x):
        rectified = F.relu(x)
        return rectified * rectified


class ReadTwice(Written):
    """The ReLU is read by others too, so it is a site of its own."""

    def forward(self, x):
        rectified = F.relu(self.first(x))
        return self.last(rectified.square()) + rectified.sum()


CASES = {
    SquareMethod: "relu2",
    PowFunction: "relu2",
    PowOperator: "relu2",
    SquaredLeaky: "leaky_relu2",
    TimesSigmoid: "silu",
    InTwoStatements: "silu",
    TimesModule: "silu",
    QuickGELU: "quick_gelu",
    ErfGELU: "gelu",
    ErfAssigned: "gelu",
    TanhGELU: "gelu_tanh",
    Mish: "mish",
    HardSwish: "hardswish",
    Cube: "composite",
    Nested: "relu2",
}


def made(kind: type[nn.Module]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return kind().eval(), torch.randn(4, 8)


@pytest.mark.parametrize("kind", CASES)
def test_all_calls_are_one_site_and_are_replaced_together(kind: type[nn.Module]):
    model, x = made(kind)
    graph = gw.find_sites(model, x)
    assert [site.op for site in graph] == [CASES[kind]] and not graph.notes
    assert len(graph.sites[0].written) > 1
    swapped = gw.swap(model, "elu", x)
    receipt = gw.receipt(swapped)
    assert receipt.proved and receipt.proof.against_graph <= 1e-6
    for each in (swapped, copy.deepcopy(swapped), pickle.loads(pickle.dumps(swapped))):
        other = torch.randn(2, 5, 8)
        expected = model.last(F.elu(model.first(other)))
        torch.testing.assert_close(each(other), expected, rtol=1e-5, atol=1e-6)
    before = model(x)
    assert torch.equal(gw.undo(swapped)(x), before)


@pytest.mark.parametrize("kind", [SquareMethod, TimesSigmoid, SquaredLeaky])
@pytest.mark.parametrize("unit", ["crelu", "psc", "concat_act", "iieu_b", "galu", "thresholded"])
def test_other_swaps_refuse_it_by_name(kind: type[nn.Module], unit: str):
    model, x = made(kind)
    with pytest.raises(ArgumentError, match=f"{CASES[kind]}, written as"):
        gw.swap(model, unit, x)


def test_an_input_that_is_not_in_the_text_of_the_last_call_is_refused():
    model, x = made(Squared)
    with pytest.raises(ArgumentError, match="cannot be rewritten"):
        gw.swap(model, "gelu", x)


def test_an_activation_that_others_read_is_a_site_of_its_own():
    model, x = made(ReadTwice)
    assert [site.op for site in gw.find_sites(model, x)] == ["relu"]
    swapped = gw.swap(model, "gelu", x)
    h = F.gelu(model.first(x))
    torch.testing.assert_close(swapped(x), model.last(h.square()) + h.sum())


def test_the_unit_of_its_name_keeps_the_function():
    model, x = made(SquareMethod)
    swapped = gw.swap(model, "relu2", x, preserve=True)
    torch.testing.assert_close(swapped(x), model(x))
    with pytest.raises(ArgumentError, match="cannot give back"):
        gw.swap(model, "silu", x, preserve=True)


def test_plain_sites_beside_it_are_matched_with_their_calls():
    class Beside(Written):
        def forward(self, x):
            h = torch.tanh(self.first(x))
            h = h + F.relu(self.first(x) - h).square()
            return self.last(F.relu(h))

    torch.manual_seed(0)
    model, x = Beside().eval(), torch.randn(4, 8)
    assert [site.op for site in gw.find_sites(model, x)] == ["tanh", "relu2", "relu"]
    swapped = gw.swap(model, {"*:relu#*": "silu", "*:relu2#*": "gelu", "*": "softsign"}, x)
    h = F.softsign(model.first(x))
    h = h + F.gelu(model.first(x) - h)
    torch.testing.assert_close(swapped(x), model.last(F.silu(h)), rtol=1e-5, atol=1e-6)
