"""Contract: a unit does what it declares, its state survives, and bad input raises our errors."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.testing.case import SHAPE, Case, require
from gatewise.testing.layer_checks import require_refusals
from gatewise.units import SPAN_TARGETS

_TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "identity": torch.clone,
    "abs": torch.abs,
}


def module_and_function_agree(case: Case) -> None:
    """The module is its function called with ``arguments(x)``, bit for bit."""
    module = case.build()
    x = case.sample()
    require(
        torch.equal(module(x), case.unit.function(x, **module.arguments(x))),
        "module and function differ",
    )


def output_has_the_declared_width(case: Case) -> None:
    """The number of output channels is as declared.

    Other dimensions and the dtype do not change.
    """
    x = case.sample()
    out = case.build()(x)
    want: list[int] = list(SHAPE)
    want[case.dim] = int(SHAPE[case.dim] * case.ratio)
    require(
        list(out.shape) == want,
        "the output does not have the declared shape",
        got=tuple(out.shape),
        allowed=tuple(want),
    )
    require(out.dtype == x.dtype, "the output does not have the dtype of the input", got=out.dtype)


def parts_span_what_is_declared(case: Case) -> None:
    """Weighted sums of the parts give relu, identity or abs exactly, as surgery requires."""
    x = case.sample()
    for other, weights in case.unit.fact("spans", **case.options).items():
        require(
            other in SPAN_TARGETS,
            "spans names an unknown function",
            got=other,
            allowed=", ".join(SPAN_TARGETS),
        )
        parts = case.function(x).chunk(len(weights), case.dim)
        terms = [weight * part for weight, part in zip(weights, parts, strict=True)]
        total = torch.stack(terms).sum(0)
        require(torch.equal(total, _TARGETS[other](x)), f"the parts do not add up to {other}")


def pieces_are_the_unit(case: Case) -> None:
    """If max-affine pieces are declared, the unit (its hard form) is their maximum."""
    pieces = case.unit.fact("pieces", **case.options)
    default_beta = 0.5 if case.unit.name == "beta_vq" else 1.0
    if pieces is None or case.options.get("beta", default_beta) != 1.0:
        return
    x = case.sample(torch.float64)
    slopes, offsets = (torch.tensor(part, dtype=torch.float64) for part in pieces)
    hard = (x[..., None] * slopes + offsets).amax(-1)
    require(
        torch.allclose(case.function(x), hard, rtol=1e-7, atol=0),
        "the unit is not the maximum of its declared pieces",
    )


def state_survives(case: Case) -> None:
    """A deep copy, and a state_dict round trip into a new module, change no bit of the output."""
    module = case.build()
    x = case.sample()
    # Away from the start values, which a new module has anyway.
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01)
    want = module(x)
    require(torch.equal(copy.deepcopy(module)(x), want), "a deep copy gives different values")
    fresh = case.build()
    fresh.load_state_dict(module.state_dict())
    require(torch.equal(fresh(x), want), "a loaded state gives different values")


def parameters_are_declared(case: Case) -> None:
    """Every trainable parameter has its start value in the facts."""
    declared = case.unit.parameters
    for name, _ in case.build().named_parameters():
        require(
            any(name == d or name.startswith(f"{d}.") for d in declared),
            "an undeclared parameter",
            got=name,
            allowed=list(declared),
        )


def repr_can_be_read_back(case: Case) -> None:
    """The first line of ``repr`` names the class and every option that is not the default."""
    text = repr(case.build())
    require(
        text.startswith(f"{case.unit.module.__name__}("),
        "repr does not begin with the class name",
        got=text,
    )
    for option, value in case.options.items():
        if value != case.unit.options[option].default:
            shown = f"{option}={value!r}" in text
            require(shown, f"repr does not show the option {option}", got=text)


def bad_input_gets_our_error(case: Case) -> None:
    """I3: integers, complex numbers, booleans, lists and wrong channels raise an ArgumentError."""
    module = case.build()
    bad: dict[str, object] = {
        "int64": torch.ones(SHAPE, dtype=torch.int64),
        "bool": torch.ones(SHAPE, dtype=torch.bool),
        "complex64": torch.ones(SHAPE, dtype=torch.complex64),
        "a list": [1.0, 2.0],
        "None": None,
    }
    if case.options.get("channels"):
        bad["seven channels"] = torch.ones(2, 7, 4, 6)
        bad["no channel dimension"] = torch.ones(())
    require_refusals(module, bad)


def wide_parameters_are_refused(case: Case) -> None:
    """Parameters of higher precision than the input raise an error and are not cast down."""
    module = case.build(torch.float64)
    if not list(module.parameters()):
        return
    try:
        module(case.sample())
    except ArgumentError:
        return
    require(False, "float64 parameters are silently narrowed for a float32 input")
