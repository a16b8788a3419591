"""Names of phase selective layers that stand in place of a unit's."""

from gatewise.models import phase_layers
from gatewise_papers.psc.layers import (
    LowRankPSConv2d,
    LowRankPSLinear,
    StaticPSConv2d,
    StaticPSLinear,
)

phase_layers(
    "static_psc",
    StaticPSConv2d,
    StaticPSLinear,
    ("split", "relaxation", "noise", "data_dependent"),
)
phase_layers("low_rank_psc", LowRankPSConv2d, LowRankPSLinear, ("rank",))
