"""FReLU: the larger of a pixel and what a small filter sees around it."""

import math

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.units.contract import (
    EXACT,
    Device,
    DType,
    Limits,
    UnitModule,
    allocating,
    cast_like_input,
    check_channels,
    check_input,
    describe_shape,
    in_compute_dtype,
    to_compute_dtype,
    unit,
)


def frelu(x: Tensor, condition: Tensor) -> Tensor:
    r"""Return the larger of ``x`` and ``condition``, element by element.

    .. math:: \mathrm{FReLU}(x) = \max(x, T(x))

    where :math:`T(x)` is ``condition``. Where both are equal, each gets half of the gradient.

    Args:
        x: the input, a real floating point tensor.
        condition: a tensor of the shape of ``x``. The module uses a normalised depthwise 3x3
            convolution of ``x``.

    Shape: ``(*) -> (*)``.

    Ma, Zhang and Sun, 2020, "Funnel Activation for Visual Recognition", arXiv:2007.11824.
    """
    check_input("frelu", x)
    if not isinstance(condition, Tensor) or condition.shape != x.shape:
        raise ArgumentError(
            "frelu: condition must be a tensor of the input's shape",
            got=describe_shape(condition),
            allowed=f"shape {tuple(x.shape)}",
        )
    return in_compute_dtype(torch.maximum, x, cast_like_input("frelu", "condition", condition, x))


@unit(
    name="frelu",
    title="Funnel rectified linear unit",
    family="context",
    on="y = x",
    function=frelu,
    formula=r"\max(x,\ \mathrm{BN}(\mathrm{DWConv}_{3 \times 3}(x)))",
    paper="Ma, Zhang and Sun, 2020 (arXiv:2007.11824)",
    studied_in=("iieu",),
    reference=lambda x, condition: torch.where(
        x == condition,
        (x + condition) / 2,
        torch.where((x > condition) | x.isnan(), x, condition),
    ),
    limits=lambda: Limits(minus=(0.0,), plus=(math.inf,)),
    probe=lambda x: {
        "condition": torch.where(x.isnan(), x, 0.0)
    },  # the funnel closed: FReLU is ReLU
    parameters={"funnel.weight": "as nn.Conv2d", "norm": "1 and 0"},
    init_gain=1.0,  # E max(a, b)^2 = 1 for standard normals of any correlation
    needs=("channels", "maps"),
    error=EXACT,
    samples=({"channels": 6},),
)
class FReLU(UnitModule):
    """FReLU on feature maps, with a depthwise 3x3 convolution and a batch norm as the condition.

    Args:
        channels: the number of channels.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, C, H, W)``.
    """

    def __init__(self, *, channels: int, device: Device = None, dtype: DType = None) -> None:
        super().__init__(channels=channels)
        count = check_channels("frelu", channels, required=True) or 1
        with allocating("frelu", device, dtype):
            self.funnel = nn.Conv2d(
                count,
                count,
                3,
                padding=1,
                groups=count,
                bias=False,
                device=device,
                dtype=dtype,
            )
            self.norm = nn.BatchNorm2d(count, device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw the filters, and reset the running statistics of the norm."""
        self.funnel.reset_parameters()
        self.norm.reset_parameters()

    def arguments(self, x: Tensor) -> dict[str, Tensor]:
        check_input("frelu", x)
        if x.dim() != 4 or x.shape[1] != self.funnel.in_channels:
            raise ArgumentError(
                "frelu: the input must be feature maps",
                got=f"shape {tuple(x.shape)}",
                allowed=f"(N, {self.funnel.in_channels}, H, W)",
            )
        if x.shape[0] and not x.numel():
            raise ArgumentError(
                "frelu: the maps are empty",
                got=f"shape {tuple(x.shape)}",
                allowed="H and W of 1 or more",
            )
        self._check_single_value(x)
        weight = cast_like_input("frelu", "the funnel", self.funnel.weight, x)
        wide = to_compute_dtype(x)
        response = nn.functional.conv2d(wide, weight, padding=1, groups=self.funnel.groups)
        return {"condition": self.norm(response.to(self.norm.weight.dtype))}

    def _check_single_value(self, x: Tensor) -> None:
        if self.training and x.shape[0] * x.shape[2] * x.shape[3] == 1:
            raise ArgumentError(
                "frelu: batch norm cannot train on one value per channel",
                got=f"shape {tuple(x.shape)}",
                fix="module.eval()",
            )

    def forward(self, x: Tensor) -> Tensor:
        return frelu(x, **self.arguments(x))
