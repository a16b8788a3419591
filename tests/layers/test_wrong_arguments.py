"""I3 for layers: every parameter of every public layer and function, given what it cannot be.

A wrong value gets our error. What is accepted is of the kind that the signature says, and then
works.
"""

import inspect
import math
from typing import Any

import pytest
import torch
from gatewise_papers.deep_gated import (
    GatedConv1d,
    GatedConv2d,
    GatedLinear,
    OutsideGatedConv1d,
    OutsideGatedConv2d,
    OutsideGatedLinear,
    RandomGate,
    matched_width,
)
from gatewise_papers.maso import (
    MASO,
    ApodizedConv1d,
    ApodizedConv2d,
    SoftConv1d,
    SoftConv2d,
    SoftLinear,
    joint_log_posterior,
    joint_map,
    largest_overlap,
    partition_deviation,
    per_unit_map,
    tanh_as_sigmoid,
)
from gatewise_papers.psc import (
    LowRankPSConv2d,
    LowRankPSLinear,
    StaticPSConv1d,
    StaticPSConv2d,
    StaticPSLinear,
    anneal_splits,
    equal_parameter_rank,
    split_temperature,
)
from layers.every_layer import MAPS, ROWS, SEQUENCES
from torch import nn

from gatewise import layers
from gatewise.errors import GatewiseError

WRONG: list[Any] = [
    None,
    True,
    "no",
    "",
    b"no",
    0,
    -1,
    3,
    2**62,
    2**70,
    0.5,
    -2.5,
    math.nan,
    math.inf,
    1j,
    [],
    (),
    (2, "a", 3),
    (0, 1),
    (2, 2),
    {},
    {"a": 1},
    object(),
    int,
    print,
    torch.int32,
    torch.complex64,
    torch.tensor(1.0),
    torch.ones(2, 3),
    torch.ones(0),
    torch.Generator(),
    nn.Identity(),
    slice(None),
]
CONVOLUTION = {"in_channels": 2, "out_channels": 4, "kernel_size": 3}
LINEAR = {"in_features": 6, "out_features": 4}
MAP, SEQUENCE, ROW = (torch.randn(shape) for shape in (MAPS, SEQUENCES, ROWS))
SLOPES, OFFSETS, POINT = torch.randn(2, 3, 6), torch.randn(2, 3), torch.randn(4, 6)


# name: (what is called, arguments that are right, an input for what it makes)
CALLS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "MASO": (MASO, {**LINEAR, "regions": 2}, ROW),
    "MASO, beta": (
        MASO,
        {**LINEAR, "regions": 2, "inference": "beta", "learn_beta": True},
        ROW,
    ),
    "MASO.from_parameters": (MASO.from_parameters, {"slopes": SLOPES, "offsets": OFFSETS}, ROW),
    "MASO.from_centroids": (MASO.from_centroids, {"centroids": SLOPES}, ROW),
    "MASO.from_layer": (lambda **o: MASO.from_layer(**o), {"layer": nn.Linear(6, 4)}, ROW),
    "MASO.from_layer, conv": (
        MASO.from_layer,
        {"layer": nn.Conv2d(2, 3, 3), "input_shape": (2, 5, 4)},
        torch.ones(4, 40),
    ),
    "MASO.sample": (lambda **o: MASO(6, 4, 2).sample(**o), {"count": 3}, None),
    "BetaPool1d": (
        layers.BetaPool1d,
        {"kernel_size": 2, "learn_beta": True, "channels": 2},
        SEQUENCE,
    ),
    "BetaPool2d": (layers.BetaPool2d, {"kernel_size": 2, "learn_beta": True, "channels": 2}, MAP),
    "BetaChannelPool": (layers.BetaChannelPool, {"pieces": 2, "learn_beta": True}, MAP),
    "SoftLinear": (SoftLinear, LINEAR, ROW),
    "SoftConv1d": (SoftConv1d, CONVOLUTION, SEQUENCE),
    "SoftConv2d": (SoftConv2d, CONVOLUTION, MAP),
    "ApodizedConv1d": (ApodizedConv1d, CONVOLUTION, SEQUENCE),
    "ApodizedConv2d": (ApodizedConv2d, CONVOLUTION, MAP),
    "PSLinear": (layers.PSLinear, LINEAR, ROW),
    "PSConv1d": (layers.PSConv1d, CONVOLUTION, SEQUENCE),
    "PSConv2d": (layers.PSConv2d, CONVOLUTION, MAP),
    "StaticPSLinear": (StaticPSLinear, LINEAR, ROW),
    "StaticPSConv1d": (StaticPSConv1d, {**CONVOLUTION, "split": 0.5}, SEQUENCE),
    "StaticPSConv2d": (StaticPSConv2d, {**CONVOLUTION, "data_dependent": True}, MAP),
    "LowRankPSLinear": (LowRankPSLinear, LINEAR, ROW),
    "LowRankPSConv2d": (LowRankPSConv2d, CONVOLUTION, MAP),
    "ConvIIEU": (layers.ConvIIEU, {"conv": nn.Conv2d(2, 4, 3), "norm": nn.BatchNorm2d(4)}, MAP),
    "LinearIIEU": (layers.LinearIIEU, {"linear": nn.Linear(6, 4)}, ROW),
    "Coupler": (layers.Coupler, {"channels": 4, "reduction": 2}, None),
    "ConstantGate": (layers.ConstantGate, {}, None),
    "RandomGate": (RandomGate, {"examples": 5, "units": 3}, torch.arange(2)),
    "SoftGate": (layers.SoftGate, {}, ROW),
    "StraightThroughGate": (layers.StraightThroughGate, {}, ROW),
    "OutsideGatedLinear": (OutsideGatedLinear, {**LINEAR, "gate": "constant"}, ROW),
    "OutsideGatedConv1d": (
        OutsideGatedConv1d,
        {**CONVOLUTION, "gate": "constant"},
        SEQUENCE,
    ),
    "OutsideGatedConv2d": (OutsideGatedConv2d, {**CONVOLUTION, "gate": "constant"}, MAP),
    "GatedLinear": (GatedLinear, LINEAR, ROW),
    "GatedConv1d": (GatedConv1d, CONVOLUTION, SEQUENCE),
    "GatedConv2d": (GatedConv2d, CONVOLUTION, MAP),
    "AttentionGate": (layers.AttentionGate, {"width": 6, "heads": 2}, None),
    "OpenGate": (layers.OpenGate, {"width": 6, "heads": 2}, None),
    "GatedMultiheadAttention": (
        layers.GatedMultiheadAttention,
        {"embed_dim": 6, "num_heads": 2},
        None,
    ),
    "anneal_splits": (
        anneal_splits,
        {"model": StaticPSLinear(6, 4), "progress": 0.5},
        None,
    ),
    "equal_parameter_rank": (equal_parameter_rank, {"inputs": 6, "outputs": 4}, None),
    "hard_gate": (layers.hard_gate, {"q": ROW}, None),
    "soft_gate": (layers.soft_gate, {"q": ROW}, None),
    "straight_through_gate": (layers.straight_through_gate, {"q": ROW}, None),
    "joint_log_posterior": (
        joint_log_posterior,
        {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT},
        None,
    ),
    "joint_map": (joint_map, {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT}, None),
    "per_unit_map": (per_unit_map, {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT}, None),
    "largest_overlap": (largest_overlap, {"slopes": SLOPES}, None),
    "slope_overlap": (layers.slope_overlap, {"slopes": SLOPES}, None),
    "matched_width": (matched_width, {"in_features": 6, "hidden_features": 8}, None),
    "orthogonal": (lambda **o: layers.orthogonal(**{"module": nn.Linear(6, 4), **o}), {}, ROW),
    "orthogonality_penalty": (layers.orthogonality_penalty, {"model": nn.Linear(6, 4)}, None),
    "partition_deviation": (partition_deviation, {"window": torch.ones(4, 4)}, None),
    "respond_to_signs": (
        layers.respond_to_signs,
        {"layer": layers.PSLinear(6, 4), "sign": ROW > 0, "magnitude": ROW},
        None,
    ),
    "sign_and_magnitude": (layers.sign_and_magnitude, {"x": ROW}, None),
    "split_temperature": (split_temperature, {"progress": 0.5}, None),
    "tanh_as_sigmoid": (
        tanh_as_sigmoid,
        {"layer": SoftLinear(6, 4, gate="tanh"), "following": nn.Linear(4, 2)},
        None,
    ),
}
SIGNATURES = {  # where the call above hides the signature
    "MASO.from_layer": MASO.from_layer,
    "MASO.sample": lambda count, *, generator=None: None,
    "orthogonal": layers.orthogonal,
}
WITHOUT_ARGUMENTS = {"GivenGate", "HardGate"}
KINDS = {"bool": (bool,), "int": (int,), "float": (int, float)}


def parameters() -> list[tuple[str, str]]:
    """Every call and parameter, read from the signatures."""
    found = []
    for name, (call, _, _) in CALLS.items():
        signature = inspect.signature(SIGNATURES.get(name, call))
        found += [
            (name, p.name) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD
        ]
    return found


def allowed_kinds(name: str, parameter: str) -> tuple[type, ...] | None:
    """What the annotation lets the parameter be, where it is a flag or a number alone."""
    annotation = (
        inspect.signature(SIGNATURES.get(name, CALLS[name][0])).parameters[parameter].annotation
    )
    return KINDS.get(getattr(annotation, "__name__", str(annotation)))


def outcome(name: str, parameter: str, value: Any) -> str:
    """What goes wrong with ``value``.

    Nothing, where it gets our error, or is of the right kind and works.
    """
    call, right, x = CALLS[name]
    try:
        made = call(**{**right, parameter: value})
        if isinstance(made, nn.Module) and x is not None:
            made(x)
    except GatewiseError:
        return ""
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:120]}"
    kinds = allowed_kinds(name, parameter)
    if kinds and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
        return "is accepted"
    return ""


def test_every_public_name_is_called_here():
    assert {name.split(",")[0].split(".")[0] for name in CALLS} | WITHOUT_ARGUMENTS == set(
        layers.__all__
    )


def test_what_the_sweep_starts_from_is_right():
    for call, right, x in CALLS.values():
        result = call(**right)
        if isinstance(result, nn.Module) and x is not None:
            result = result(x)
        assert result is not None, call


@pytest.mark.parametrize(("name", "parameter"), parameters())
def test_a_wrong_argument_gets_our_error(name: str, parameter: str):
    problems = {repr(value)[:60]: outcome(name, parameter, value) for value in WRONG}
    assert not {value: problem for value, problem in problems.items() if problem}
