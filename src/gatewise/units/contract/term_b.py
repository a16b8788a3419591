"""Term-B of IIEU: a number between 0 and 1 per sample and channel, from the mean responses.

Note [Far means]. Standardising squares its input, and its derivative multiplies the input by the
gradient. Means for which that would overflow (beyond 1e13 in float32) are bounded constants without
gradient.
"""

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_count
from gatewise.errors import ArgumentError
from gatewise.units.contract.arithmetic import cast_like_input
from gatewise.units.contract.factory import allocating
from gatewise.units.contract.leaf_module import LeafModule
from gatewise.units.contract.unit_module import Device, DType

TERMS = ("layer", "group", "batch", "affine")
EPS = 1e-6  # added to the variance, as in the authors' code


class TermB(LeafModule):
    r"""Term-B, with weight and bias per channel.

    .. math:: \nu = \sigma(\gamma\,\mathrm{norm}(\bar x) + \beta)

    Args:
        channels: the number of channels ``C``.
        term: what is normalised: ``"layer"`` each sample over all channels, ``"group"`` each sample
            over each of ``groups`` runs of channels, ``"batch"`` each channel over the batch,
            ``"affine"`` nothing.
        groups: the number of groups for ``"group"``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C) -> (N, C)``.
    """

    GAIN = 0.01  # start of the weight: every shift near 1/2

    def __init__(
        self,
        channels: int,
        term: str,
        groups: int | None,
        *,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.term = check_choice("iieu_b", "term_b", term, TERMS)
        self.groups = _check_groups(channels, term, groups)
        with allocating("iieu_b", device, dtype):
            self.weight = nn.Parameter(torch.empty(channels, device=device, dtype=dtype))
            self.bias = nn.Parameter(torch.empty(channels, device=device, dtype=dtype))
            if term == "batch":
                self.norm = nn.BatchNorm1d(
                    channels,
                    eps=EPS,
                    affine=False,
                    device=device,
                    dtype=dtype,
                )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set weight to 0.01 and bias to 0, and reset the running statistics of ``"batch"``."""
        nn.init.constant_(self.weight, self.GAIN)
        nn.init.zeros_(self.bias)
        if self.term == "batch":
            self.norm.reset_parameters()

    def forward(self, means: Tensor) -> Tensor:
        weight = cast_like_input("iieu_b", "term B", self.weight, means)
        bias = cast_like_input("iieu_b", "term B", self.bias, means)
        return torch.sigmoid(weight * self._normalised(means) + bias)

    def _normalised(self, means: Tensor) -> Tensor:
        if self.term == "affine":
            return means
        if self.term == "batch":
            self._check_batch(means)
            return self.norm(detach_overflowing(means, 0).to(self.weight.dtype)).to(means.dtype)
        return standardise(means.unflatten(1, (self.groups, -1))).flatten(1)

    def _check_batch(self, means: Tensor) -> None:
        if self.training and means.shape[0] == 1:
            raise ArgumentError(
                "iieu_b: batch norm cannot train on a batch of one",
                got="1 sample",
                allowed="2 samples or more",
                fix="term_b='layer', or module.eval()",
            )

    def extra_repr(self) -> str:
        groups = f", groups={self.groups}" if self.term == "group" else ""
        return f"{self.weight.numel()}, {self.term!r}{groups}"


def standardise(values: Tensor) -> Tensor:
    """Return ``values`` minus their mean, over their standard deviation, along the last dimension.

    The result is 0 if there is only one value.
    """
    values = detach_overflowing(values, -1)
    centred = values - values.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + EPS)


def detach_overflowing(values: Tensor, dim: int) -> Tensor:
    """Return ``values``, bounded and detached where one along ``dim`` is far out.

    See Note [Far means].
    """
    if values.shape[dim] == 0:
        return values
    bound = torch.finfo(values.dtype).max ** 0.5 * 2.0**-20
    too_large = values.detach().abs().amax(dim, keepdim=True) > bound
    return torch.where(too_large, values.detach().clamp(-bound, bound), values)


def _check_groups(channels: int, term: str, groups: int | None) -> int:
    if term != "group":
        if groups is not None:
            raise ArgumentError(
                "iieu_b: option groups needs term_b='group'",
                got=f"term_b={term!r}, groups={groups}",
                fix="groups=None",
            )
        return 1
    if groups is None or channels % check_count("iieu_b", "groups", groups, least=1):
        raise ArgumentError(
            "iieu_b: term_b='group' needs a number of groups that divides the channels",
            got=f"groups={groups} for {channels} channels",
            allowed=f"a divisor of {channels}",
        )
    return groups
