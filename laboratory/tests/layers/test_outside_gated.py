"""Layers gated from outside: each network of the paper, its paths, and the contract of layers."""

import itertools

import pytest
import torch
from gatewise_papers.deep_gated import (
    OutsideGatedConv1d,
    OutsideGatedConv2d,
    OutsideGatedLinear,
    RandomGate,
)
from loops import for_each
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.layers.gated import ConstantGate, SoftGate
from gatewise.testing import check_layer
from gatewise.units.catalogue.soft_relu import soft_relu


class Twin(nn.Module):
    """A layer and the layer whose response gates it: both see the input."""

    def __init__(self, kind: type[nn.Module], *sizes: int, **options) -> None:
        super().__init__()
        self.gates = kind(*sizes)
        self.layer = kind(*sizes, **options)
        if options.get("gate") == "hard":
            self.gates.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, self.gates.response(x))

    def reset_parameters(self) -> None:
        self.gates.reset_parameters()
        self.layer.reset_parameters()


class Numbered(nn.Module):
    """A layer with random gates, whose rows are the first training examples."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = OutsideGatedLinear(4, 3, gate=RandomGate(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.shape[0] if isinstance(x, Tensor) and x.dim() else 1
        return self.layer(x, torch.arange(rows, device=getattr(x, "device", None)))

    def reset_parameters(self) -> None:
        self.layer.reset_parameters()


def by_hand(x: Tensor, weight: Tensor, gate: Tensor) -> Tensor:
    """One multiplication after another, in float64."""
    out = torch.zeros(len(x), len(weight), dtype=torch.float64)
    for s, i, j in itertools.product(range(len(x)), range(len(weight)), range(x.shape[1])):
        out[s, i] += x[s, j].double() * weight[i, j].double() * gate[s, i].double()
    return out


def test_with_constant_gates_a_stack_is_one_linear_map():
    layers = [OutsideGatedLinear(4, 4, gate="constant", dtype=torch.float64) for _ in range(3)]
    x = torch.randn(5, 4, dtype=torch.float64)
    got = layers[2](layers[1](layers[0](x)))
    product = layers[2].weight @ layers[1].weight @ layers[0].weight
    assert torch.allclose(got, x @ product.T, rtol=1e-12, atol=1e-14)


def test_a_constant_gate_scales_every_unit():
    layer = OutsideGatedLinear(4, 3, gate=ConstantGate(0.1), dtype=torch.float64)
    x = torch.randn(5, 4, dtype=torch.float64)
    assert torch.equal(layer(x), F.linear(x, layer.weight) * 0.1)


def test_given_gates_multiply_the_response():
    layer = OutsideGatedLinear(4, 3, gate="given", dtype=torch.float64)
    x, gate = torch.randn(5, 4, dtype=torch.float64), torch.rand(5, 3, dtype=torch.float64)
    assert torch.allclose(layer(x, gate), by_hand(x, layer.weight, gate), rtol=1e-13, atol=1e-15)


def test_a_gate_of_size_one_is_shared():
    layer = OutsideGatedLinear(4, 3, gate="given")
    x, gate = torch.randn(5, 4), torch.rand(5, 1)
    assert torch.equal(layer(x, gate), layer(x, gate.expand(5, 3)))


@for_each("gate", ["hard", "straight_through"])
def test_another_layers_response_opens_or_closes_each_unit(gate: str):
    layer = OutsideGatedLinear(4, 3, gate=gate)
    x, q = torch.randn(50, 4), torch.randn(50, 3)
    assert torch.allclose(
        layer(x, q).double(), by_hand(x, layer.weight, q > 0), rtol=1e-5, atol=1e-6
    )


def test_a_layer_gated_by_its_own_response_is_relu_or_soft_relu():
    x = torch.randn(7, 4)
    hard = OutsideGatedLinear(4, 3, gate="hard", bias=True)
    assert torch.equal(hard(x, hard.response(x)), F.linear(x, hard.weight, hard.bias).relu())
    soft = OutsideGatedLinear(4, 3, gate=SoftGate(beta=8.0, eps=0.4))
    assert torch.allclose(
        soft(x, soft.response(x)), soft_relu(F.linear(x, soft.weight), 8.0, 0.4), atol=1e-6
    )


@for_each("gate", ["soft", "straight_through"])
def test_a_gate_that_learns_passes_response_times_the_soft_gates_derivative(gate: str):
    layer = OutsideGatedLinear(4, 3, gate=gate, dtype=torch.float64)
    x, q = (
        torch.randn(5, 4, dtype=torch.float64),
        torch.randn(5, 3, dtype=torch.float64, requires_grad=True),
    )
    (got,) = torch.autograd.grad(layer(x, q).sum(), q)
    chi = 1.1 / (1 + torch.exp(-4.0 * q.detach()))
    want = (x @ layer.weight.T).detach() * 4.0 * chi * (1 - chi / 1.1)
    assert torch.allclose(got, want, rtol=1e-10, atol=1e-14)


def test_a_hard_gate_leaves_the_other_layer_without_a_gradient():
    layer, q = OutsideGatedLinear(4, 3, gate="hard"), torch.randn(5, 3, requires_grad=True)
    layer(torch.randn(5, 4), q).sum().backward()
    assert q.grad is None
    assert layer.weight.grad is not None


def test_the_output_of_a_gated_network_is_the_sum_over_its_active_paths():
    """The path view: y(s) = sum over paths of x(p0, s), the path's gates and the path's weights."""
    n, d_in, w = 3, 2, 4
    first = OutsideGatedLinear(d_in, w, gate=RandomGate(n, w), dtype=torch.float64)
    second = OutsideGatedLinear(w, w, gate=RandomGate(n, w), dtype=torch.float64)
    last = torch.randn(w, dtype=torch.float64)
    x, index = torch.randn(n, d_in, dtype=torch.float64), torch.arange(n)
    got = second(first(x, index), index) @ last
    for s in range(n):
        total = 0.0
        for i, j, k in itertools.product(range(d_in), range(w), range(w)):
            active = float(first.gate.open[s, j]) * float(second.gate.open[s, k])
            total += (
                x[s, i].item()
                * active
                * (first.weight[j, i] * second.weight[k, j] * last[k]).item()
            )
        assert got[s].item() == pytest.approx(total, rel=1e-12, abs=1e-14)


def test_random_gates_fit_a_point_and_its_double_to_opposite_values_and_own_gates_cannot():
    """No ReLU network without bias can.

    Both points have the same gates, so one value is twice the other.
    """
    x = torch.tensor([[0.6, -0.8], [1.2, -1.6]], dtype=torch.float64)
    y = torch.tensor([1.0, -1.0], dtype=torch.float64)
    losses = {}
    for gate in (RandomGate(2, 64), "hard"):
        torch.manual_seed(1)
        layer = OutsideGatedLinear(2, 64, gate=gate, dtype=torch.float64)
        features = layer(
            x, torch.arange(2) if isinstance(gate, RandomGate) else layer.response(x)
        ).detach()
        last = torch.linalg.lstsq(features, y[:, None], driver="gelsd").solution[:, 0]
        losses[type(gate).__name__] = (features @ last - y).square().sum().item()
    assert losses["RandomGate"] < 1e-20
    # the best values v, 2v lose (v - 1)^2 + (2v + 1)^2, least at v = -1/5: 9/5
    assert losses["str"] == pytest.approx(9 / 5, abs=1e-9)


@for_each(("kind", "function"), [(OutsideGatedConv1d, F.conv1d), (OutsideGatedConv2d, F.conv2d)])
def test_convolutions_are_torchs_times_the_gate(kind, function):
    options = {"stride": 2, "padding": 1, "dilation": 2, "groups": 2}
    layer = kind(4, 6, 3, **options, bias=True, gate="hard", dtype=torch.float64)
    x = torch.randn(2, 4, *[9] * kind.spatial, dtype=torch.float64)
    response = function(x, layer.weight, layer.bias, **options)
    q = torch.randn_like(response)
    assert torch.equal(layer.response(x), response)
    assert torch.equal(layer(x, q), torch.where(q > 0, response, 0.0))


def test_the_default_has_no_bias_as_in_the_paper_and_stable_names():
    assert list(OutsideGatedLinear(4, 3).state_dict()) == ["weight"]
    assert list(OutsideGatedLinear(4, 3, bias=True).state_dict()) == ["weight", "bias"]
    assert list(OutsideGatedLinear(4, 3, gate=RandomGate(2, 3)).state_dict()) == [
        "weight",
        "gate.open",
    ]


def test_a_plain_layers_state_loads():
    plain, layer = nn.Linear(4, 3), OutsideGatedLinear(4, 3, gate="constant", bias=True)
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(5, 4)
    assert torch.equal(layer(x), plain(x))


def test_a_response_that_overflows_float16_is_stopped_by_a_closed_gate():
    layer = OutsideGatedLinear(4, 3, gate="hard").half()
    with torch.no_grad():
        layer.weight.fill_(1.0)
    x = torch.full((1, 4), 6e4, dtype=torch.float16, requires_grad=True)
    out = layer(x, torch.tensor([[1.0, -1.0, 0.0]], dtype=torch.float16))
    assert out.tolist() == [[65504.0, 0.0, 0.0]]
    out.sum().backward()
    assert not x.grad.isnan().any()


@for_each("gate", ["soft", "hard", "straight_through", "given"])
def test_a_missing_source_is_named(gate: str):
    with pytest.raises(ArgumentError, match=r"needs a source.*layer\(x, source\)"):
        OutsideGatedLinear(4, 3, gate=gate)(torch.ones(2, 4))


def test_a_source_that_a_constant_gate_cannot_use_is_refused():
    with pytest.raises(ArgumentError, match="takes no source"):
        OutsideGatedLinear(4, 3, gate="constant")(torch.ones(2, 4), torch.ones(2, 3))


@for_each("shape", [(2, 4), (3,), (3, 3), (2, 3, 1), ()])
def test_a_gate_of_another_shape_is_refused(shape: tuple[int, ...]):
    with pytest.raises(ArgumentError, match="different shapes"):
        OutsideGatedLinear(4, 3)(torch.ones(2, 4), torch.ones(shape))


def test_a_gate_of_higher_precision_is_refused():
    with pytest.raises(ArgumentError, match="the gate does not fit the dtype"):
        OutsideGatedLinear(4, 3)(torch.ones(2, 4), torch.ones(2, 3, dtype=torch.float64))


def test_an_unknown_gate_gets_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'straight_through'"):
        OutsideGatedLinear(4, 3, gate="straight_thru")


# Only calls of modules are leaves of a graph; ``response`` and row numbers are not.
NOT_TRACED = {"traces_with_fx": "the module above calls more than layers"}
SLOW = {"exports_to_onnx": "the soft gate's case is exported", **NOT_TRACED}
SURROGATE = "a straight-through gradient is not the derivative"
DIFFERENCES = dict.fromkeys(
    ("gradients_match_finite_differences", "second_gradients_match_finite_differences"), SURROGATE
)


@pytest.mark.slow
def test_a_softly_gated_convolution_keeps_the_contract_of_layers():
    check_layer(
        lambda: Twin(OutsideGatedConv2d, 2, 3, 3, gate="soft"),
        (2, 2, 5, 4),
        leave_out=NOT_TRACED,
    )


@pytest.mark.slow
@for_each(("gate", "leave_out"), [("hard", SLOW), ("straight_through", {**SLOW, **DIFFERENCES})])
def test_other_gates_keep_the_contract_of_layers(gate: str, leave_out: dict):
    leave_out = (
        {**leave_out, "compiles_whole_and_once": "as the soft gate"}
        if gate == "hard"
        else leave_out
    )
    check_layer(
        lambda: Twin(OutsideGatedLinear, 4, 3, gate=gate),
        (3, 4),
        channel_dim=-1,
        leave_out=leave_out,
    )


@pytest.mark.slow
def test_random_gates_keep_the_contract_of_layers():
    leave_out = {
        **SLOW,
        "batches_do_not_matter": "the gates belong to the row's number",
        "functional_transforms_agree": "the gates belong to the row's number",
    }
    check_layer(Numbered, (3, 4), channel_dim=-1, leave_out=leave_out)
