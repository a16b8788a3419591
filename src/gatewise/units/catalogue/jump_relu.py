"""JumpReLU: the response above a trainable threshold."""

import math
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_number
from gatewise.units.contract import (
    RECTIFIED,
    Device,
    DType,
    TrainableUnit,
    by_channel,
    check_input,
    error_bounds,
    in_compute_dtype,
    per_channel,
    promise,
    unit,
)

START = 0.001
OLD_NAME = "log_threshold"  # of the parameter in files of version 0.1.0, which is its logarithm


def jump_relu(
    x: Tensor,
    threshold: float | Tensor = START,
    bandwidth: float = 0.001,
    dim: int = 1,
) -> Tensor:
    r"""Return ``x`` where it exceeds a trainable threshold, 0 elsewhere.

    .. math:: \mathrm{JumpReLU}(x) = x\,1[x > t]

    The value jumps by the threshold :math:`t`, so its derivative to the threshold is 0 almost
    everywhere. Training uses a straight-through estimate instead: minus
    ``threshold / bandwidth`` for inputs within half a ``bandwidth`` of the threshold. It estimates
    the derivative of the mean over inputs.

    Args:
        x: the input, a real floating point tensor.
        threshold: the threshold, one number or one per channel.
        bandwidth: the width of the interval in which inputs move the threshold.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Rajamanoharan et al., 2024, "Jumping Ahead: Improving Reconstruction Fidelity with JumpReLU
    Sparse Autoencoders", arXiv:2407.14435.
    """
    check_input("jump_relu", x)
    width = check_number("jump_relu", "bandwidth", bandwidth, above=0.0)
    value = per_channel("jump_relu", "threshold", threshold, x, dim)
    dtype = torch.promote_types(x.dtype, torch.float32)
    wide = torch.as_tensor(value, dtype=dtype, device=x.device)
    return in_compute_dtype(_jump_relu, x, wide, width)


def _jump_relu(w: Tensor, threshold: Tensor, width: float | Tensor) -> Tensor:
    fixed = threshold.detach()
    kept = torch.where(w <= fixed, 0.0, w)
    estimate = torch.where((w - fixed).abs() < width / 2, fixed / width, 0.0)
    # The difference is exactly 0. Only its derivative enters, the straight-through estimate.
    return kept - estimate * (threshold - fixed)


def _reference(x: Tensor, threshold: Tensor, bandwidth: float) -> Tensor:
    return torch.where(x <= threshold, 0.0, x)


@unit(
    name="jump_relu",
    title="Jump rectified linear unit",
    family="adaptive",
    on="gate > 1/2",
    function=jump_relu,
    formula=r"x\,1[x > t]",
    paper="Rajamanoharan et al., 2024 (arXiv:2407.14435)",
    reference=by_channel(_reference),
    limits=RECTIFIED,
    # At the rounded threshold either side is right.
    kinks=lambda threshold=START: {threshold: math.nan},
    parameters={"threshold": "0.001"},
    error=error_bounds(half=promise(0), float32=promise(0)),
    samples=({}, {"threshold": 0.3, "channels": 6}),
    note="The gradient to the threshold is an estimate; keep the bandwidth above the dtype's step.",
)
class JumpReLU(TrainableUnit):
    """Module form of :func:`jump_relu`.

    Args:
        threshold: the start value of the threshold, above 0.
        bandwidth: the width of the interval in which inputs move the threshold.
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    expression = staticmethod(_jump_relu)

    def __init__(
        self,
        *,
        threshold: float = START,
        bandwidth: float = 0.001,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        self.bandwidth = check_number("jump_relu", "bandwidth", bandwidth, above=0.0)
        start = check_number("jump_relu", "threshold", threshold, above=0.0)
        super().__init__(
            threshold=start,
            channels=channels,
            dim=dim,
            device=device,
            dtype=dtype,
            bandwidth=bandwidth,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        old = state_dict.pop(f"{prefix}{OLD_NAME}", None)
        if old is not None:
            state_dict[f"{prefix}threshold"] = old.exp()
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
