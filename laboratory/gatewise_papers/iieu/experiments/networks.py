"""The paper's names for activations, and what each is here."""

from typing import Any

# IIEU-DC is IIEU-B with a learned mixture in place of the residual addition.
NETWORKS: dict[str, dict[str, Any]] = {
    "ReLU": {"unit": "relu"},
    "LkReLU": {"unit": "leaky_relu"},
    "GELU": {"unit": "gelu"},
    "SiLU": {"unit": "silu"},
    "Swish": {"unit": "swish"},
    "ELU": {"unit": "elu"},
    "Softplus": {"unit": "softplus"},
    "Pserf": {"unit": "pserf"},
    "Mish": {"unit": "mish"},
    "ACON-C": {"unit": "acon_c"},
    "Meta-ACON": {"unit": "meta_acon"},
    "SMU-1": {"unit": "smu1"},
    # At the published starts SMU and SMU-1 are one and the same leaky ReLU, and stay it.
    "SMU": {"unit": {"name": "smu", "mu": 2.5}},
    "IIEU-B": {"unit": "iieu_b"},
    "IIEU-DC": {"unit": "iieu_b", "coupler": True},
}
# Not in the paper. Where IIEU stands, so that what the unit does and what its place does can be
# told apart.
MOVED = "ReLU before the addition"
OURS = ("IIEU-B", "IIEU-DC")  # the paper's own
