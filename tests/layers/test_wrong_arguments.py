"""Every parameter of every public layer and function gives our error for a wrong value."""

import pytest
import torch
from layers.every_layer import MAPS, ROWS, SEQUENCES
from layers.wrong_arguments import CONVOLUTION, LINEAR, Call, check_call
from torch import nn

from gatewise import layers

MAP, SEQUENCE, ROW = (torch.randn(shape) for shape in (MAPS, SEQUENCES, ROWS))

CALLS: dict[str, Call] = {
    "BetaPool1d": (
        layers.BetaPool1d,
        {"kernel_size": 2, "learn_beta": True, "channels": 2},
        SEQUENCE,
    ),
    "BetaPool2d": (layers.BetaPool2d, {"kernel_size": 2, "learn_beta": True, "channels": 2}, MAP),
    "BetaChannelPool": (layers.BetaChannelPool, {"pieces": 2, "learn_beta": True}, MAP),
    "PSLinear": (layers.PSLinear, LINEAR, ROW),
    "PSConv1d": (layers.PSConv1d, CONVOLUTION, SEQUENCE),
    "PSConv2d": (layers.PSConv2d, CONVOLUTION, MAP),
    "ConvIIEU": (layers.ConvIIEU, {"conv": nn.Conv2d(2, 4, 3), "norm": nn.BatchNorm2d(4)}, MAP),
    "LinearIIEU": (layers.LinearIIEU, {"linear": nn.Linear(6, 4)}, ROW),
    "Coupler": (layers.Coupler, {"channels": 4, "reduction": 2}, None),
    "ConstantGate": (layers.ConstantGate, {}, None),
    "SoftGate": (layers.SoftGate, {}, ROW),
    "StraightThroughGate": (layers.StraightThroughGate, {}, ROW),
    "AttentionGate": (layers.AttentionGate, {"width": 6, "heads": 2}, None),
    "OpenGate": (layers.OpenGate, {"width": 6, "heads": 2}, None),
    "GatedMultiheadAttention": (
        layers.GatedMultiheadAttention,
        {"embed_dim": 6, "num_heads": 2},
        None,
    ),
    "hard_gate": (layers.hard_gate, {"q": ROW}, None),
    "soft_gate": (layers.soft_gate, {"q": ROW}, None),
    "straight_through_gate": (layers.straight_through_gate, {"q": ROW}, None),
    "slope_overlap": (layers.slope_overlap, {"slopes": torch.randn(2, 3, 6)}, None),
    "orthogonal": (lambda **o: layers.orthogonal(**{"module": nn.Linear(6, 4), **o}), {}, ROW),
    "orthogonality_penalty": (layers.orthogonality_penalty, {"model": nn.Linear(6, 4)}, None),
    "respond_to_signs": (
        layers.respond_to_signs,
        {"layer": layers.PSLinear(6, 4), "sign": ROW > 0, "magnitude": ROW},
        None,
    ),
    "sign_and_magnitude": (layers.sign_and_magnitude, {"x": ROW}, None),
}
SIGNATURES = {"orthogonal": layers.orthogonal}  # where the call hides the signature
WITHOUT_ARGUMENTS = {"GivenGate", "HardGate"}


def test_every_public_name_is_called_here():
    assert CALLS.keys() | WITHOUT_ARGUMENTS == set(layers.__all__)


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_gets_our_error(name: str):
    check_call(CALLS[name], SIGNATURES.get(name))
