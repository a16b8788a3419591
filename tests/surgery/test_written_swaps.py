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


class ClampedReLU(Written):
    def act(self, x):
        return F.relu(x).clamp(max=6.0)


class SquaredSquare(Written):
    def act(self, x):
        return F.relu(x).square().square()


class Halves(nn.Module):
    """A module without a call of an activation function."""

    def forward(self, x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


class InModule(Written):
    def __init__(self) -> None:
        super().__init__()
        self.gelu = Halves()

    def forward(self, x):
        return self.last(self.gelu(self.first(x)))


# What the code computes of a number besides an activation that could be replaced alone.
PARTS = {
    "in place": lambda x: F.relu(x).square_(),
    "of a result in place": lambda x: F.relu(x, inplace=True).square(),
    "product in place": lambda x: torch.sigmoid(x).mul_(x),
    "read twice": lambda x: (r := F.relu(x)).square() + r,
    "root": lambda x: (F.relu(x) + 0.001).sqrt(),
    "other type": lambda x: torch.float_power(F.relu(x), 2).float(),
    "einsum": lambda x: torch.einsum("bi,bi->bi", F.relu(x), F.relu(x)),
    "reshaped": lambda x: F.relu(x).view(-1, 2, 4).square().view(-1, 8),
    "dropped": lambda x: F.dropout(F.relu(x), 0.1, False).square(),
    "mask": lambda x: x * (F.relu(x) > 0),
    "softplus with a floor": lambda x: F.softplus(x).clamp(min=0.01),
    "written leaky ReLU": lambda x: F.relu(x) - 0.25 * F.relu(-x),
    "gate with a slope": lambda x: x * torch.sigmoid(2.5 * x),
}


class Part(Written):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.function = PARTS[name]

    def forward(self, x):
        return self.last(self.function(self.first(x)))


class ReadByOthers(Written):
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
    ClampedReLU: "relu6",
    SquaredSquare: "composite",
    InModule: "composite",
}


def made(kind: type[nn.Module]) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return kind().eval(), torch.randn(4, 8)


@pytest.mark.parametrize("kind", CASES)
def test_all_calls_are_one_site_and_are_replaced_together(kind: type[nn.Module]):
    model, x = made(kind)
    graph = gw.find_sites(model, x)
    assert [site.op for site in graph] == [CASES[kind]] and not graph.notes
    assert kind is InModule or len(graph.sites[0].written) > 1
    swapped = gw.swap(model, "elu", x)
    receipt = gw.receipt(swapped)
    assert receipt.proved
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


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_an_activation_is_refused_with_the_operators_of_the_whole(name: str):
    torch.manual_seed(0)
    model, x = Part(name).eval(), torch.randn(4, 8)
    for unit in ("gelu", "crelu"):
        with pytest.raises(ArgumentError, match="computes more of its input than this"):
            gw.swap(model, unit, x, gates=True)


def test_a_part_that_others_read_is_refused_and_its_statistics_do_not_count():
    model, x = made(ReadByOthers)
    with pytest.raises(ArgumentError, match=r"relu, square\)"):
        gw.swap(model, "gelu", x)

    class Norm(Written):
        def forward(self, x):
            h = F.relu(self.first(x))
            return (
                self.last(h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-5)) + 2 * h.sum()
            )

    model, x = made(Norm)
    assert gw.receipt(gw.swap(model, "gelu", x)).proved


WHOLE = {
    "mean of powers": lambda x, f: F.avg_pool1d(f(x).clamp(min=1e-6).pow(3), 8).pow(1 / 3),
    "norm": lambda x, f: f(x) / (f(x).norm(dim=-1, keepdim=True) + 1),
    "feature map": lambda x, f: f(x) + 1,
    "residual": lambda x, f: x + f(x),
    "products of other entries": lambda x, f: f(x) * f(x).roll(1, -1),
    "largest": lambda x, f: f(x).where(f(x) >= f(x).topk(3).values[..., -1:], torch.zeros_like(x)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_functions_of_several_entries_are_no_parts_of_an_activation(name: str):
    class Model(Written):
        def forward(self, x):
            h = self.first(x)
            return WHOLE[name](h, lambda _: F.relu(h))

    torch.manual_seed(0)
    model, x = Model().eval(), torch.randn(4, 8)
    assert {(site.op, site.part_of) for site in gw.find_sites(model, x)} == {("relu", ())}


def test_two_activations_in_a_row_are_two_sites():
    class Twice(Written):
        def act(self, x):
            return F.relu6(F.relu(x))

    model, x = made(Twice)
    expected = model.last(F.gelu(F.gelu(model.first(x))))
    torch.testing.assert_close(gw.swap(model, "gelu", x)(x), expected)


def test_a_gate_alone_is_changed_on_request_only():
    class Gated(Written):
        def forward(self, x):
            return self.last(torch.sigmoid(self.first(x)))

    model, x = made(Gated)
    with pytest.raises(ArgumentError, match="gates=True"):
        gw.swap(model, "silu", x)
    assert gw.receipt(gw.swap(model, "silu", x, gates=True)).proved


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
