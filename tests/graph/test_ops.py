"""The operator table agrees with torch: names, arguments, defaults, functions and modules."""

import inspect

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from gatewise.graph import (
    OPERATORS,
    REQUIRED,
    Form,
    Kind,
    Operator,
    Sign,
    get_operator,
    operators_of,
)

IN_TORCH = [
    operator
    for operator in OPERATORS.values()
    if operator.kind not in (Kind.COMPOSITE_FUNCTION, Kind.GETITEM)
]
WITH_FUNCTIONS = [operator for operator in OPERATORS.values() if operator.functions]
PIECEWISE = [operator for operator in OPERATORS.values() if operator.pieces is not None]
# Arguments for the operators whose arguments have no default, or whose defaults are not a test.
ARGUMENTS = {
    "threshold": {"threshold": 0.3, "value": -2.0},
    "clamp": {"min": -0.7, "max": 0.4},
    "clip": {"min": -0.7},
    "clamp_min": {"min": 0.2},
    "clamp_max": {"max": -0.1},
    "prelu": {"weight": torch.tensor([0.2])},
}


def schemas(operator: Operator) -> list[torch.FunctionSchema]:
    packet = getattr(torch.ops.aten, operator.name)
    return [getattr(packet, overload)._schema for overload in packet.overloads()]


def names_of(operators: list[Operator]) -> list[str]:
    return [operator.name for operator in operators]


@pytest.mark.parametrize("operator", IN_TORCH, ids=names_of(IN_TORCH))
def test_the_operator_exists_in_torch(operator: Operator):
    assert hasattr(torch.ops.aten, operator.name)
    assert schemas(operator)


def test_each_operator_stands_under_its_name():
    assert all(operator.name == name for name, operator in OPERATORS.items())


@pytest.mark.parametrize("operator", WITH_FUNCTIONS, ids=names_of(WITH_FUNCTIONS))
def test_options_have_the_names_order_and_defaults_of_torch(operator: Operator):
    if operator.kind is Kind.COMPOSITE_FUNCTION:
        assert not operator.options
        return
    plain = next(schema for schema in schemas(operator) if not schema.overload_name)
    arguments = {argument.name: argument for argument in plain.arguments[1:]}
    assert [name for name in arguments if name in operator.options] == list(operator.options)
    for name, default in operator.options.items():
        if default is REQUIRED:
            assert not arguments[name].has_default_value()
        else:
            assert arguments[name].default_value == pytest.approx(default)


@pytest.mark.parametrize("operator", WITH_FUNCTIONS, ids=names_of(WITH_FUNCTIONS))
def test_the_function_takes_the_parameters_of_the_table(operator: Operator):
    functions = [getattr(F, name) for name in operator.functions if hasattr(F, name)]
    assert functions
    for function in functions:
        try:
            names = list(inspect.signature(function).parameters)
        except ValueError:  # a function of C has no signature; the schema was compared above
            continue
        assert tuple(names[1:]) == operator.parameters


@pytest.mark.parametrize("operator", WITH_FUNCTIONS, ids=names_of(WITH_FUNCTIONS))
def test_the_module_computes_the_function(operator: Operator):
    required = [name for name, default in operator.options.items() if default is REQUIRED]
    arguments = ARGUMENTS.get(operator.name, {}) if operator.name != "prelu" else {}
    module = operator.module(**arguments).eval()
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    if operator.name == "prelu":
        assert required == ["weight"]
        arguments = {"weight": module.weight}
    function = getattr(F, operator.functions[0])
    assert torch.equal(module(x), function(x, **arguments))


def test_every_activation_module_of_torch_is_known_or_is_no_function_of_one_element():
    """Softmax mixes elements; attention is a layer."""
    known = {operator.module for operator in OPERATORS.values()}
    others = {nn.MultiheadAttention, nn.Softmax, nn.Softmax2d, nn.Softmin, nn.LogSoftmax}
    classes = set()
    for name in torch.nn.modules.activation.__all__:
        classes.add(getattr(nn, name))
    assert classes - others <= known
    assert not known & others


@pytest.mark.parametrize("operator", PIECEWISE, ids=names_of(PIECEWISE))
def test_pieces_are_the_function(operator: Operator):
    defaults = {
        name: default for name, default in operator.options.items() if default is not REQUIRED
    }
    arguments = defaults | ARGUMENTS.get(operator.name, {})
    z = torch.linspace(-8, 8, 3201, dtype=torch.float64)
    if operator.name == "prelu":
        expected = F.prelu(z[:, None], arguments["weight"].double())[:, 0]
    else:
        expected = getattr(torch.ops.aten, operator.name)(z, **arguments)
    pieces = operator.pieces.resolve(arguments)
    assert len(pieces.slopes) == len(pieces.offsets) == len(pieces.thresholds) + 1
    assert list(pieces.thresholds) == sorted(pieces.thresholds)
    thresholds = torch.tensor(pieces.thresholds, dtype=torch.float64)
    piece = torch.bucketize(z, thresholds)
    slopes = torch.tensor([float(slope) for slope in pieces.slopes], dtype=torch.float64)
    offsets = torch.tensor(pieces.offsets, dtype=torch.float64)
    assert torch.allclose(slopes[piece] * z + offsets[piece], expected, atol=1e-7)
    assert operator.form is Form.PIECEWISE


@pytest.mark.parametrize(
    ("name", "open_at", "closed_at"),
    [
        ("relu", 0.1, -0.1),
        ("leaky_relu", 0.1, -0.1),
        ("relu6", 7.0, -0.1),
        ("hardtanh", 2.0, -1.5),
        ("hardshrink", -0.6, 0.4),
        ("softshrink", 0.6, -0.4),
        ("threshold", 0.4, 0.2),
        ("abs", 0.1, -0.1),
    ],
)
def test_gates_are_open_where_the_unit_passes_its_input(name, open_at, closed_at):
    operator = OPERATORS[name]
    arguments = dict(operator.options) | ARGUMENTS.get(name, {})
    gate = operator.pieces.active(torch.tensor([open_at, closed_at]), arguments)
    assert gate.tolist() == [True, False]


def sample(operator: Operator, generator: torch.Generator) -> torch.Tensor:
    x = torch.randn(2, 3, 8, 8, generator=generator)
    return x.abs() if operator.sign is Sign.KEPT else x


CALLS = {
    "add": lambda f, x: f(x, x),
    "mul": lambda f, x: f(x, x),
    "multiply": lambda f, x: f(x, x),
    "div": lambda f, x: f(x, x + 1),
    "divide": lambda f, x: f(x, x + 1),
    "true_divide": lambda f, x: f(x, x + 1),
    "cat": lambda f, x: f([x, x]),
    "stack": lambda f, x: f([x, x]),
    "softmax": lambda f, x: f(x, 1),
    "_softmax": lambda f, x: f(x, 1, False),
    "mean": lambda f, x: f(x, [1]),
    "max_pool2d": lambda f, x: f(x, [2, 2]),
    "avg_pool2d": lambda f, x: f(x, [2, 2]),
    "adaptive_avg_pool2d": lambda f, x: f(x, [2, 2]),
    "dropout": lambda f, x: f(x, 0.5, True),
    "feature_dropout": lambda f, x: f(x, 0.5, True),
    "roll": lambda f, x: f(x, [1], [1]),
    "flip": lambda f, x: f(x, [1]),
    "amax": lambda f, x: f(x, [1]),
    "amin": lambda f, x: f(x, [1]),
    "sqrt": lambda f, x: f(x.abs()),
}


@pytest.mark.parametrize(
    "name", sorted(operators_of(Sign.NEVER_NEGATIVE)) + sorted(operators_of(Sign.KEPT) & set(CALLS))
)
def test_signs_hold_on_random_inputs(name: str):
    generator = torch.Generator().manual_seed(0)
    operator = OPERATORS[name]
    function = getattr(torch.ops.aten, name)
    call = CALLS.get(name, lambda f, x: f(x))
    assert bool((call(function, sample(operator, generator)) >= 0).all())


AFFINE_CALLS = {
    "neg": lambda x: torch.neg(x),
    "where": lambda x: torch.where(torch.ones(x.shape, dtype=torch.bool), x, 2.0),
    "masked_fill": lambda x: x.masked_fill(torch.eye(8, dtype=torch.bool), 3.0),
    "upsample_nearest2d": lambda x: F.interpolate(x, scale_factor=2.0),
    "_upsample_nearest_exact2d": lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest-exact"),
    "upsample_bilinear2d": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "upsample_bicubic2d": lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"),
    "upsample_linear1d": lambda x: F.interpolate(x[0], scale_factor=2.0, mode="linear"),
    "constant_pad_nd": lambda x: F.pad(x, (1, 2), value=0.5),
    "reflection_pad2d": lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"),
    "replication_pad2d": lambda x: F.pad(x, (1, 2, 1, 1), mode="replicate"),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "im2col": lambda x: F.unfold(x, 3),
    "cumsum": lambda x: x.cumsum(1),
    "diff": lambda x: x.diff(dim=1),
    "batch_norm": lambda x: F.batch_norm(x, torch.ones(3).double(), torch.full((3,), 2.0).double()),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, padding=1),
    "mean": lambda x: x.mean((1, 2)),
}


@pytest.mark.parametrize("name", AFFINE_CALLS)
def test_affine_operators_are_affine(name: str):
    """``f(a x + (1 - a) y) = a f(x) + (1 - a) f(y)`` for any number ``a``."""
    assert OPERATORS[name].form is Form.AFFINE
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, 2, 3, 8, 8, dtype=torch.float64, generator=generator)
    f = AFFINE_CALLS[name]
    assert torch.allclose(f(1.7 * x - 0.7 * y), 1.7 * f(x) - 0.7 * f(y), atol=1e-12)


def test_spatial_dimensions_are_read_from_the_name():
    assert [OPERATORS[name].spatial_dims for name in ("conv1d", "conv_transpose3d")] == [1, 3]
    assert OPERATORS["adaptive_avg_pool2d"].spatial_dims == 2
    assert OPERATORS["add"].spatial_dims == OPERATORS["linear"].spatial_dims == 0


def test_an_unknown_operator_has_no_facts():
    operator = get_operator("conv9d_of_my_own")
    assert (operator.kind, operator.form, operator.sign) == (Kind.OTHER, Form.OTHER, Sign.UNKNOWN)
