"""S5: the names of layers' parameters are for ever.

A change here breaks users' checkpoints: write a migration.
"""

import json
from pathlib import Path

from gatewise_papers import deep_gated, maso, psc
from torch import nn

import gatewise as gw

GOLDEN = Path(__file__).parent.parent / "golden" / "0.1.0" / "layer_state_dicts.json"


def layers():
    """One of each kind, small."""
    return {
        "MASO": maso.MASO(3, 2, 2),
        "MASO-beta": maso.MASO(3, 2, 2, inference="beta", beta=0.5, learn_beta=True),
        "BetaPool2d": gw.nn.BetaPool2d(2, beta=0.5, learn_beta=True, channels=3),
        "SoftLinear": maso.SoftLinear(3, 2),
        "ApodizedConv2d": maso.ApodizedConv2d(3, 2, 3),
        "PSConv2d": gw.nn.PSConv2d(3, 2, 3),
        "PSLinear": gw.nn.PSLinear(3, 2),
        "StaticPSConv2d": psc.StaticPSConv2d(3, 4, 3, split=0.5),
        "StaticPSConv2d-learned": psc.StaticPSConv2d(3, 4, 3, split="learned"),
        "LowRankPSConv2d": psc.LowRankPSConv2d(8, 8, 3),
        "ConvIIEU": gw.nn.ConvIIEU(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)),
        "LinearIIEU": gw.nn.LinearIIEU(nn.Linear(3, 4)),
        "Coupler": gw.nn.Coupler(32),
        "GatedLinear": deep_gated.GatedLinear(3, 2),
        "orthogonal": gw.nn.orthogonal(nn.Linear(3, 2)),
    }


def shapes():
    return {
        name: {k: list(v.shape) for k, v in m.state_dict().items()} for name, m in layers().items()
    }


def test_state_dict_keys_and_shapes_are_those_of_the_first_release():
    assert shapes() == json.loads(GOLDEN.read_text())
