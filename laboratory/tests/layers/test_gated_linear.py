"""The GLU family: against F.glu and the published formulas, and the contract of layers."""

import pytest
import torch
from gatewise_papers.deep_gated import GatedConv1d, GatedConv2d, GatedLinear, OutsideGatedLinear
from loops import for_each
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.testing import check_layer
from gatewise.units.contract import registered_units

FORMULAS = {
    "sigmoid": torch.special.expit,
    "identity": lambda v: v,
    "relu": lambda v: torch.where(v > 0, v, 0.0),
    "gelu": lambda v: v * 0.5 * torch.special.erfc(-v / 2**0.5),
    "silu": lambda v: v / (1 + torch.exp(-v)),
    "hard": lambda v: (v > 0).double(),
    "soft": lambda v: 1.1 / (1 + torch.exp(-4 * v)),
    "straight_through": lambda v: (v > 0).double(),
}
WIDTH_CHANGES = ("crelu", "leaky_crelu", "maxout")
USABLE = [
    name
    for name, unit in registered_units().items()
    if unit.family != "context" and name not in WIDTH_CHANGES
]


def both(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The two responses, by an einsum of their own."""
    response = torch.einsum("...i,oi->...o", x, layer.weight) + layer.bias
    return response, torch.einsum("...i,oi->...o", x, layer.weight_gate) + layer.bias_gate


@for_each("name", FORMULAS)
@for_each("shape", [(4,), (5, 4), (2, 3, 4)])
def test_each_member_of_the_family_is_its_formula(name: str, shape: tuple[int, ...]):
    layer = GatedLinear(4, 3, gate=name, dtype=torch.float64)
    x = torch.randn(shape, dtype=torch.float64)
    u, v = both(layer, x)
    assert torch.allclose(layer(x), u * FORMULAS[name](v), rtol=1e-12, atol=1e-14)


@for_each(
    ("layer", "plain", "shape"),
    [
        (GatedLinear(4, 3), F.linear, (5, 4)),
        (GatedConv1d(4, 3, 3, padding=1), lambda x, w, b: F.conv1d(x, w, b, padding=1), (5, 4, 7)),
        (GatedConv2d(4, 3, 3, 2), lambda x, w, b: F.conv2d(x, w, b, 2), (5, 4, 7, 6)),
    ],
)
def test_with_a_sigmoid_it_is_torchs_glu_of_one_stacked_layer(
    layer: nn.Module, plain, shape: tuple[int, ...]
):
    x = torch.randn(shape)
    stacked = plain(
        x, torch.cat([layer.weight, layer.weight_gate]), torch.cat([layer.bias, layer.bias_gate])
    )
    assert torch.allclose(layer(x), F.glu(stacked, dim=-1 - layer.spatial), rtol=1e-5, atol=1e-6)


# "sigmoid" names the layer's own soft gate.
@for_each("name", sorted(set(USABLE) - {"sigmoid"}))
def test_any_unit_that_keeps_the_width_is_a_gate(name: str):
    layer = GatedLinear(4, 3, gate=name, dtype=torch.float64)
    x = torch.randn(5, 4, dtype=torch.float64)
    u, v = both(layer, x)
    arguments = {
        k: a.detach() if isinstance(a, Tensor) else a for k, a in layer.gate.arguments(v).items()
    }
    want = u * registered_units()[name].reference(v, **arguments)
    assert torch.allclose(layer(x), want, rtol=1e-9, atol=1e-12)


def test_per_channel_parameters_of_a_gate_belong_to_the_output_channels():
    for layer, x in (
        (GatedLinear(4, 3, gate="prelu", channels=3), torch.randn(5, 2, 4)),
        (GatedConv2d(4, 3, 1, gate="prelu", channels=3), torch.randn(5, 4, 2, 2)),
    ):
        with torch.no_grad():
            layer.gate.slope.copy_(torch.tensor([0.1, 0.2, 0.3]))
        rows = x if x.dim() == 3 else x.movedim(1, -1)
        flat = GatedLinear(4, 3, gate="prelu", channels=3)
        flat.load_state_dict(
            {k: v.reshape(flat.state_dict()[k].shape) for k, v in layer.state_dict().items()}
        )
        u, v = both(flat, rows)
        want = u * torch.where(v > 0, v, v * torch.tensor([0.1, 0.2, 0.3]))
        got = layer(x) if x.dim() == 3 else layer(x).movedim(1, -1)
        assert torch.allclose(got, want, rtol=1e-5, atol=1e-6)


def test_options_reach_the_gate():
    layer = GatedLinear(4, 3, gate="soft", beta=2.0, eps=0.4, dtype=torch.float64)
    x = torch.randn(5, 4, dtype=torch.float64)
    u, v = both(layer, x)
    assert torch.allclose(layer(x), u * 1.4 / (1 + torch.exp(-2 * v)), rtol=1e-12, atol=1e-14)
    assert GatedLinear(4, 3, gate="leaky_relu", slope=0.3).gate.slope == 0.3


@for_each("gate", ["hard", "soft", "straight_through"])
def test_it_is_the_layer_gated_from_outside_with_the_gates_layer_built_in(gate: str):
    layer, outside = GatedLinear(4, 3, gate=gate), OutsideGatedLinear(4, 3, gate=gate, bias=True)
    outside.load_state_dict({"weight": layer.weight, "bias": layer.bias})
    x = torch.randn(5, 4)
    assert torch.equal(layer(x), outside(x, F.linear(x, layer.weight_gate, layer.bias_gate)))


def test_a_hard_gates_layer_is_frozen_and_the_others_learn():
    def frozen(gate: str) -> list[str]:
        return [
            name
            for name, p in GatedLinear(4, 3, gate=gate).named_parameters()
            if not p.requires_grad
        ]

    assert frozen("hard") == ["weight_gate", "bias_gate"]
    assert [frozen(gate) for gate in ("soft", "straight_through", "sigmoid", "relu")] == [[]] * 4


def test_a_straight_through_gates_layer_gets_the_soft_gates_gradient():
    hard, soft = (
        GatedLinear(4, 3, gate=gate, dtype=torch.float64) for gate in ("straight_through", "soft")
    )
    soft.load_state_dict(hard.state_dict())
    x = torch.randn(5, 4, dtype=torch.float64)
    gradients = [
        torch.autograd.grad(layer(x).sum(), layer.weight_gate)[0] for layer in (hard, soft)
    ]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-14)
    assert gradients[0].abs().min() > 0


def test_names_in_the_state_are_those_that_checkpoints_rely_on():
    assert list(GatedLinear(4, 3).state_dict()) == ["weight", "bias", "weight_gate", "bias_gate"]
    assert list(GatedLinear(4, 3, bias=False).state_dict()) == ["weight", "weight_gate"]
    assert list(GatedConv2d(4, 3, 1, gate="prelu").state_dict())[-1] == "gate.slope"


@for_each("kind", [GatedLinear, GatedConv2d])
def test_weights_start_as_torchs_own(kind: type[nn.Module]):
    layer = kind(64, 500) if kind is GatedLinear else kind(16, 500, 2)
    for values in (layer.weight, layer.weight_gate, layer.bias, layer.bias_gate):
        assert values.abs().max() <= 1 / 8 < 1.03 * values.abs().max()  # fan-in 64
    assert not torch.equal(layer.weight, layer.weight_gate)


def test_reset_parameters_also_resets_the_gate():
    layer = GatedLinear(4, 3, gate="prelu")
    with torch.no_grad():
        layer.gate.slope.fill_(9.0)
    layer.reset_parameters()
    assert layer.gate.slope.item() == 0.25


def test_half_precision_products_are_rounded_once():
    layer = GatedLinear(8, 64, gate="silu", bias=False).bfloat16()
    x = torch.randn(32, 8).bfloat16()
    u, v = (F.linear(x, w).float() for w in (layer.weight, layer.weight_gate))
    want = (u * v * torch.special.expit(v)).bfloat16()
    assert (
        layer(x) != want
    ).float().mean() < 0.01  # a last bit may differ where float32 rounds across a tie
    assert torch.allclose(layer(x).float(), want.float(), rtol=2**-8, atol=1e-30)


@for_each("gate", ["relu", "sigmoid", "identity", "silu"])
@for_each("sign", [1.0, -1.0])
def test_responses_that_overflow_float16_give_no_nan(gate: str, sign: float):
    layer = GatedLinear(4, 3, gate=gate).half()
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.weight_gate.fill_(sign)
    x = torch.full((2, 4), 6e4, dtype=torch.float16, requires_grad=True)
    out = layer(x)
    assert not out.isnan().any()
    out.sum().backward()
    assert not any(g.isnan().any() for g in (x.grad, layer.weight.grad, layer.weight_gate.grad))


def test_nan_is_not_hidden():
    layer = GatedLinear(4, 3, gate="relu")
    x = torch.full((1, 4), torch.nan, requires_grad=True)
    out = layer(x)
    assert out.isnan().all()
    out.sum().backward()
    assert layer.weight.grad.isnan().all()


@for_each("gate", WIDTH_CHANGES)
def test_a_unit_that_changes_the_width_is_refused(gate: str):
    with pytest.raises(ArgumentError, match="changes the width"):
        GatedLinear(4, 6, gate=gate)


@for_each("gate", ["frelu", "meta_acon"])
def test_a_unit_that_looks_around_is_refused(gate: str):
    with pytest.raises(ArgumentError, match="may depend only on its own response"):
        GatedConv2d(4, 6, 1, gate=gate)


@for_each(
    ("options", "said"),
    [
        ({"gate": "sigmoid", "beta": 2.0}, "no such option"),
        ({"gate": "identity", "beta": 2.0}, "no such option"),
        ({"gate": "hard", "beta": 2.0}, "no such option"),
        ({"gate": "relu", "beta": 2.0}, "no option of that name"),
        ({"gate": "prelu", "dim": 0}, "sets the gate's dim"),
        ({"gate": "prelu", "channels": 4}, "sets the gate's dim"),
        ({"gate": "soft", "beta": -1.0}, "beta is not allowed"),
    ],
)
def test_options_the_gate_does_not_have_are_refused(options: dict, said: str):
    with pytest.raises(ArgumentError, match=said):
        GatedLinear(4, 3, **options)


def test_an_unknown_gate_gets_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'silu'"):
        GatedLinear(4, 3, gate="sillu")


@for_each(
    ("build", "named"),
    [
        (lambda: GatedLinear(0, 3), "in_features"),
        (lambda: GatedLinear(4, 2.5), "out_features"),
        (lambda: GatedConv2d(4, 6, 3, groups=4), "groups"),
        (lambda: GatedConv2d(4, 6, (3, 3, 3)), "kernel_size"),
        (lambda: GatedConv1d(4, 6, 3, padding="sane"), "padding"),
    ],
)
def test_sizes_that_make_no_layer_are_refused_at_construction(build, named: str):
    with pytest.raises(ArgumentError, match=named):
        build()


@pytest.mark.slow
def test_glu_keeps_the_contract_of_layers_in_two_processes_too():
    check_layer(lambda: GatedLinear(4, 3), (3, 4), channel_dim=-1, ddp=True)


QUICK = {"exports_to_onnx": "GLU is exported", "compiles_whole_and_once": "GLU is compiled"}


@pytest.mark.slow
def test_a_gated_convolution_keeps_the_contract_of_layers():
    check_layer(lambda: GatedConv2d(2, 3, 3, padding=1, gate="silu"), (2, 2, 5, 4), leave_out=QUICK)


@pytest.mark.slow
@for_each("gate", ["identity", "relu", "gelu", "hard", "prelu", "acon_c"])
def test_every_kind_of_gate_keeps_the_contract_of_layers(gate: str):
    check_layer(lambda: GatedLinear(4, 3, gate=gate), (3, 4), channel_dim=-1, leave_out=QUICK)


# They overflow: see docs/layers.md and docs/errors.md.
SQUARES = {"gelu_tanh", "leaky_relu2", "pau", "relu2", "smu1", "star_relu", "xielu"}


@for_each("gate", sorted(set(USABLE) - SQUARES))
def test_no_gate_gives_nan_for_finite_input(gate: str):
    checks = ["finite_input_never_gives_nan", "finite_input_never_gives_nan_in_training"]
    check_layer(lambda: GatedConv1d(2, 3, 3, padding=1, gate=gate), (2, 2, 5), only=checks)
