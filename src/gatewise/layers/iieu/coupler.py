"""Coupler: a learned mixture, per channel, of a block's main branch and its shortcut (IIEU-DC)."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_count
from gatewise.errors import ArgumentError
from gatewise.units import (
    Device,
    DType,
    LeafModule,
    allocating,
    cast_like_input,
    check_input,
    detach_saturated,
    filter_norm,
    iieu_b,
    in_compute_dtype,
    mean_without_overflow,
    standardise,
    to_compute_dtype,
    vector_norm,
)

# By the authors' file: the start of the inner threshold, and the standard deviation of the two
# matrices, where None is Kaiming's by fan out.
VARIANTS: dict[str, tuple[float, float | None]] = {
    "resnet": (0.01, None),
    "mobilenet": (0.05, 0.01),
}
EPS = 1e-8  # added to lengths
SPREAD_EPS = 1e-6  # added to the inner standard deviation


class Coupler(LeafModule):
    r"""Mix two maps of ``C`` channels by weights that both set together, in place of an addition.

    .. math:: y = a_u u + a_v v, \qquad (a_u, a_v) = \mathrm{softmax}(\mathrm{LN}(z W_2^\top)),
        \qquad z = \phi(t W_1^\top), \qquad t = \mathrm{LN}([\bar u; \bar v])

    per channel, so :math:`a_u + a_v = 1`. The bars are means over positions. ``LN`` runs over the
    2C numbers of both branches together, and both branches share ``W_1`` and ``W_2``. :math:`\phi`
    is IIEU-B of the rows of ``t`` and the filters ``W_1``. Its Term-B standardises each row over
    its ``h = C // reduction`` features, by the unbiased standard deviation plus 1e-6, with weight
    and bias for each branch. There are 2Ch + 8C + 5h parameters.

    At the start both weights are near 1/2: ``y`` is about the mean of both branches, half of what
    an addition gives. Only ``reduce.weight`` and ``expand.weight`` should have weight decay.
    :meth:`no_weight_decay` names the others, which are 1-dimensional. The authors' recipe also
    decayed the inner unit's parameters.

    Args:
        channels: the number of channels ``C``.
        reduction: ``C / h``; the authors use 16 in ResNets and 4 in MobileNetV2. It must leave at
            least one feature. A single feature has no spread, so Term-B is then its bias (the
            authors' code gives NaN).
        variant: start values as in the authors' file for ``"resnet"`` (inner threshold 0.01,
            matrices Kaiming normal by fan out) or ``"mobilenet"`` (0.05, and N(0, 0.01^2)).
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, *), (N, C, *) -> (N, C, *)``.

    Cai, 2023, "IIEU: Rethinking Neural Feature Activation from Decision-Making", ICCV, and its
    authors' code.
    """

    shift_weight: nn.Parameter  # (2h,), of the inner Term-B, both branches
    shift_bias: nn.Parameter  # (2h,)
    eta: nn.Parameter  # (h,), the inner threshold

    def __init__(
        self,
        channels: int,
        *,
        reduction: int = 16,
        variant: str = "resnet",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.channels = check_count("Coupler", "channels", channels, least=1)
        self.reduction = check_count("Coupler", "reduction", reduction, least=1)
        self.variant = check_choice("Coupler", "variant", variant, tuple(VARIANTS))
        self.hidden = self._check_hidden()
        with allocating("Coupler", device, dtype):
            self._make_parts({"device": device, "dtype": dtype})
        self.reset_parameters()

    def _make_parts(self, place: dict[str, Any]) -> None:
        self.norm_in = nn.LayerNorm(2 * self.channels, eps=1e-6, **place)
        self.reduce = nn.Linear(self.channels, self.hidden, bias=False, **place)
        for name, count in (
            ("shift_weight", 2 * self.hidden),
            ("shift_bias", 2 * self.hidden),
            ("eta", self.hidden),
        ):
            self.register_parameter(name, nn.Parameter(torch.empty(count, **place)))
        self.expand = nn.Linear(self.hidden, self.channels, bias=False, **place)
        self.norm_out = nn.LayerNorm(2 * self.channels, eps=1e-6, **place)

    def reset_parameters(self) -> None:
        """Draw both matrices, and set the other parameters to their start values."""
        eta, deviation = VARIANTS[self.variant]
        for linear in (self.reduce, self.expand):
            nn.init.normal_(linear.weight, std=deviation or math.sqrt(2 / linear.out_features))
        for value, parameters in (
            (eta, (self.eta,)),
            (1.0, (self.norm_in.weight,)),
            (0.01, (self.shift_weight, self.norm_out.weight)),
            (0.0, (self.shift_bias, self.norm_in.bias, self.norm_out.bias)),
        ):
            for parameter in parameters:
                nn.init.constant_(parameter, value)

    def no_weight_decay(self) -> set[str]:
        """Return the parameters that weight decay should spare: all except the two matrices."""
        return {name for name, parameter in self.named_parameters() if parameter.dim() == 1}

    def weights(self, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``a_u`` and ``a_v``, each ``(N, C)``, in the precision of the computation.

        Args:
            u: the main branch.
            v: the shortcut.
        """
        self._check(u, v)
        positions = list(range(2, u.dim()))
        means = [mean_without_overflow(to_compute_dtype(branch), positions) for branch in (u, v)]
        # The norms run over the 2C numbers of both branches together.
        rows = self._layer_norm(torch.cat(means, 1), self.norm_in)
        expand = self._cast("expand.weight", self.expand.weight, rows)
        mixed = nn.functional.linear(self._inner(rows), expand).to(rows.dtype)
        first, second = self._layer_norm(mixed.flatten(1), self.norm_out).unbind(1)
        # The softmax of two numbers.
        return torch.sigmoid(first - second), torch.sigmoid(second - first)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        ours, theirs = self.weights(u, v)
        dtype = torch.promote_types(u.dtype, v.dtype)
        shape = (*ours.shape, *[1] * (u.dim() - 2))
        return in_compute_dtype(
            _mixture, u.to(dtype), v.to(dtype), ours.reshape(shape), theirs.reshape(shape)
        )

    def extra_repr(self) -> str:
        return f"{self.channels}, reduction={self.reduction}, variant={self.variant!r}"

    def _inner(self, rows: Tensor) -> Tensor:
        """IIEU-B of ``rows``, ``(N, 2, C) -> (N, 2, h)``."""
        reduce = self._cast("reduce", self.reduce.weight, rows)
        weight = self._cast("shift_weight", self.shift_weight, rows)
        bias = self._cast("shift_bias", self.shift_bias, rows)
        response = nn.functional.linear(rows, reduce).to(rows.dtype)
        shape = (2, self.hidden)
        shift = torch.sigmoid(weight.reshape(shape) * _spread_out(response) + bias.reshape(shape))
        patches = vector_norm(rows, -1, EPS)
        filters = filter_norm(reduce, EPS)
        return iieu_b(response, patches, filters, shift, self.eta, dim=-1)

    def _layer_norm(self, numbers: Tensor, norm: nn.LayerNorm) -> Tensor:
        """``(N, 2C) -> (N, 2, C)``, in the precision of ``numbers``."""
        weight = self._cast("norm", norm.weight, numbers)
        bias = self._cast("norm", norm.bias, numbers)
        return (weight * standardise(numbers) + bias).unflatten(1, (2, self.channels))

    def _cast(self, name: str, parameter: Tensor, x: Tensor) -> Tensor:
        return cast_like_input("Coupler", name, parameter, x)

    def _check(self, u: Tensor, v: Tensor) -> None:
        for branch in (u, v):
            self._cast("the parameters", self.eta, check_input("Coupler", branch))
            if branch.dim() < 2 or branch.shape[1] != self.channels:
                raise ArgumentError(
                    "Coupler: wrong number of input channels",
                    got=f"shape {tuple(branch.shape)}",
                    allowed=f"(N, {self.channels}, *)",
                )
        if u.shape[0] and not u.numel():
            raise ArgumentError(
                "Coupler: there is no position to take the mean over", got=f"shape {tuple(u.shape)}"
            )
        if u.shape != v.shape or u.device != v.device:
            raise ArgumentError(
                "Coupler: both branches must have the same shape and device",
                got=f"{tuple(u.shape)} on {u.device} and {tuple(v.shape)} on {v.device}",
            )

    def _check_hidden(self) -> int:
        if self.channels < self.reduction:
            raise ArgumentError(
                "Coupler: the reduction is larger than the number of channels",
                got=f"reduction={self.reduction} of {self.channels} channels",
                allowed=f"1 <= reduction <= {self.channels}",
            )
        return self.channels // self.reduction


def _mixture(u: Tensor, v: Tensor, ours: Tensor, theirs: Tensor) -> Tensor:
    """Return both branches times their weights, which get no gradient from numbers far out.

    See Note [Far out] in the arithmetic of units.
    """
    return detach_saturated(u, ours) * u + detach_saturated(v, theirs) * v


def _spread_out(response: Tensor) -> Tensor:
    """Return each row minus its mean, over its unbiased standard deviation plus an epsilon.

    The result is 0 if all numbers are equal.
    """
    centred = response - response.mean(-1, keepdim=True)
    total = centred.square().sum(-1, keepdim=True)
    is_constant = total == 0
    degrees = max(response.shape[-1] - 1, 1)
    spread = torch.sqrt(torch.where(is_constant, 1.0, total) / degrees)
    return torch.where(is_constant, 0.0, centred / (spread + SPREAD_EPS))
