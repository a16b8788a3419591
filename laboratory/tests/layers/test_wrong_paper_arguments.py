"""Every parameter of every layer of the papers gives our error for a wrong value."""

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
from layers.wrong_arguments import CONVOLUTION, LINEAR, Call, check_call
from loops import for_each
from torch import nn

MAP, SEQUENCE, ROW = (torch.randn(shape) for shape in (MAPS, SEQUENCES, ROWS))
SLOPES, OFFSETS, POINT = torch.randn(2, 3, 6), torch.randn(2, 3), torch.randn(4, 6)

CALLS: dict[str, Call] = {
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
    "SoftLinear": (SoftLinear, LINEAR, ROW),
    "SoftConv1d": (SoftConv1d, CONVOLUTION, SEQUENCE),
    "SoftConv2d": (SoftConv2d, CONVOLUTION, MAP),
    "ApodizedConv1d": (ApodizedConv1d, CONVOLUTION, SEQUENCE),
    "ApodizedConv2d": (ApodizedConv2d, CONVOLUTION, MAP),
    "StaticPSLinear": (StaticPSLinear, LINEAR, ROW),
    "StaticPSConv1d": (StaticPSConv1d, {**CONVOLUTION, "split": 0.5}, SEQUENCE),
    "StaticPSConv2d": (StaticPSConv2d, {**CONVOLUTION, "data_dependent": True}, MAP),
    "LowRankPSLinear": (LowRankPSLinear, LINEAR, ROW),
    "LowRankPSConv2d": (LowRankPSConv2d, CONVOLUTION, MAP),
    "RandomGate": (RandomGate, {"examples": 5, "units": 3}, torch.arange(2)),
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
    "anneal_splits": (
        anneal_splits,
        {"model": StaticPSLinear(6, 4), "progress": 0.5},
        None,
    ),
    "equal_parameter_rank": (equal_parameter_rank, {"inputs": 6, "outputs": 4}, None),
    "joint_log_posterior": (
        joint_log_posterior,
        {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT},
        None,
    ),
    "joint_map": (joint_map, {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT}, None),
    "per_unit_map": (per_unit_map, {"slopes": SLOPES, "offsets": OFFSETS, "z": POINT}, None),
    "largest_overlap": (largest_overlap, {"slopes": SLOPES}, None),
    "matched_width": (matched_width, {"in_features": 6, "hidden_features": 8}, None),
    "partition_deviation": (partition_deviation, {"window": torch.ones(4, 4)}, None),
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
}


@for_each("name", CALLS)
def test_a_wrong_argument_gets_our_error(name: str):
    check_call(CALLS[name], SIGNATURES.get(name))
