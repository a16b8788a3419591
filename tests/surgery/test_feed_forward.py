"""Plain feed-forward parts become gated linear units, and are given back."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.swaps.feed_forward import matched_hidden

FUNCTIONS = {"swiglu": F.silu, "geglu": F.gelu, "reglu": torch.relu, "bilinear": lambda g: g}


def part(activation: nn.Module, *, bias: bool = True, hidden: int = 24) -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Linear(12, hidden, bias=bias)
    second = nn.Linear(hidden, 10, bias=bias)
    return nn.Sequential(first, activation, nn.Dropout(0.2), second).eval()


def example() -> torch.Tensor:
    return torch.randn(9, 12, generator=torch.Generator().manual_seed(1))


def parameters(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())


@pytest.mark.parametrize(
    "hidden, before, after, bias, want",
    [  # the counts of both parts by hand, for the exact width and its neighbours
        (3072, 768, 768, False, 2048),
        (3072, 768, 768, True, 2048),
        (4096, 1024, 1024, False, 2731),
        (11, 5, 3, True, 7),
    ],
)
def test_the_matched_width_is_the_one_with_the_nearest_count(hidden, before, after, bias, want):
    assert matched_hidden(hidden, before, after, bias=bias) == want
    plain = hidden * (before + after) + bias * (hidden + after)

    def gated(width: int) -> int:
        return width * (2 * before + after) + bias * (2 * width + after)

    distances = {width: abs(gated(width) - plain) for width in range(1, 2 * hidden)}
    assert distances[want] == min(distances.values())
    if (before, bias) == (768, False):
        assert distances[want] == 0


@pytest.mark.parametrize(
    "activation, unit", [(nn.SiLU(), "swiglu"), (nn.GELU(), "geglu"), (nn.ReLU(), "reglu")]
)
def test_with_the_same_width_and_function_the_outputs_stay(activation, unit):
    model = part(activation)
    x = example()
    changed = gw.swap(model, unit, x, hidden="same", preserve=True)
    assert gw.receipt(changed).proved and changed[0].out_features == 48
    torch.testing.assert_close(changed(x), model(x))
    changed(x).sum().backward()
    assert bool(changed[0].weight.grad[24:].any())  # the new rows learn


@pytest.mark.parametrize(
    "unit",
    ["swiglu", *(pytest.param(name, marks=pytest.mark.slow) for name in [*FUNCTIONS][1:])],
)
def test_matched_parts_have_the_wiring_of_a_gated_linear_unit(unit):
    model = part(nn.SiLU())
    x = example()
    plan = gw.plan(model, unit, x, hidden="matched")
    changed = gw.swap(model, unit, x, hidden="matched")
    width = matched_hidden(24, 12, 10, bias=True)
    assert (changed[0].out_features, changed[3].in_features) == (2 * width, width)
    assert plan.parameters == (parameters(model), parameters(changed))
    assert abs(parameters(changed) / parameters(model) - 1) < 0.03
    torch.nn.init.normal_(changed[0].weight)
    torch.nn.init.normal_(changed[0].bias)
    gate, value = changed[0](x).chunk(2, -1)  # the gate is the first half
    torch.testing.assert_close(changed(x), changed[3](FUNCTIONS[unit](gate) * value))
    (site,) = gw.find_sites(changed, x)
    assert site.role == "glu" and site.gate.part == "first half"


def test_matched_parts_start_as_the_first_channels_of_the_plain_part():
    model = part(nn.SiLU())
    x = example()
    changed = gw.swap(model, "geglu", x, hidden="matched")
    assert "WIRING CHECKED, FUNCTION NEW" in str(gw.receipt(changed))
    width = changed[3].in_features
    hidden = F.gelu(model[0](x)[:, :width])
    want = F.linear(hidden, model[3].weight[:, :width], model[3].bias)
    torch.testing.assert_close(changed(x), want)


def test_without_biases_the_count_is_exact_and_values_are_drawn():
    model = part(nn.ReLU(), bias=False, hidden=34)  # 34 * 22 = 22 * 34
    changed = gw.swap(model, "swiglu", example(), hidden="matched")
    assert parameters(changed) == parameters(model) and changed[3].in_features == 22
    assert bool(changed[0].weight[22:].ne(0).all())


def test_undo_gives_the_plain_part_back():
    model = part(nn.SiLU())
    x = example()
    changed = gw.swap(model, "swiglu", x, hidden="matched")
    restored = gw.undo(changed)
    assert isinstance(restored[1], nn.SiLU) and restored[0].out_features == 24
    assert torch.equal(restored(x), model(x))


def test_decoders_become_gated():
    torch.manual_seed(0)
    model = gw.models.create_model("small_gpt", unit="gelu", width=16, depth=1, heads=2, length=8)
    ids = torch.randint(0, 256, (2, 8))
    changed = gw.swap(model, "geglu", ids, hidden="matched")
    (site,) = gw.find_sites(changed, ids)
    assert (site.role, site.op) == ("glu", "geglu")
    assert abs(parameters(changed) / parameters(model) - 1) < 0.01


class Residual(nn.Module):
    """The hidden layer is read twice, so that it cannot be divided."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(12, 12)
        self.second = nn.Linear(12, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        return self.second(torch.relu(h)) + h


def test_what_cannot_become_gated_is_refused_with_the_reason():
    x = example()
    with pytest.raises(ArgumentError, match="read by others too"):
        gw.swap(Residual(), "reglu", x, hidden="matched")
    with pytest.raises(ArgumentError, match="hidden is not a width"):
        gw.swap(part(nn.ReLU()), "reglu", x, hidden="half")
    with pytest.raises(ArgumentError, match="not the gate of a gated linear unit"):
        gw.swap(part(nn.ReLU()), "reglu", x)
    with pytest.raises(ArgumentError, match="cannot give back"):
        gw.swap(part(nn.SiLU(), bias=False), "swiglu", x, hidden="same", preserve=True)
    with pytest.raises(ArgumentError, match="cannot give back"):
        gw.swap(part(nn.SiLU()), "swiglu", x, hidden="matched", preserve=True)
    convolution = nn.Sequential(nn.Conv1d(12, 4, 1), nn.ReLU(), nn.Conv1d(4, 2, 1))
    with pytest.raises(ArgumentError, match="between two linear layers"):
        gw.swap(convolution, "reglu", torch.randn(2, 12, 5), hidden="matched")
