"""Meta-ACON: ACON-C with a switch per sample and channel, set by a small network."""

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_count
from gatewise.errors import ArgumentError
from gatewise.units.catalogue.acon_c import AconModule, slope_limits, smooth_maximum
from gatewise.units.contract import (
    Device,
    DType,
    allocating,
    cast_like_input,
    check_feature_maps,
    check_input,
    describe_shape,
    detach_overflowing,
    error_bounds,
    in_compute_dtype,
    mean_without_overflow,
    per_channel,
    per_sample_and_channel,
    promise,
    resolve_dim,
    to_compute_dtype,
    unit,
)


def meta_acon(
    x: Tensor,
    switch: Tensor,
    p1: float | Tensor = 1.0,
    p2: float | Tensor = 0.0,
    dim: int = 1,
) -> Tensor:
    r"""Return the smooth maximum of ``p1 * x`` and ``p2 * x``, with a switch by sample and channel.

    .. math:: (p_1 - p_2) x\,\sigma(\beta (p_1 - p_2) x) + p_2 x, \qquad \beta = \sigma(s)

    Args:
        x: the input, a real floating point tensor.
        switch: the logits :math:`s`, ``(N, C)``. The module computes them from the mean of ``x``
            over positions.
        p1: the slope of the first line, one number or one per channel.
        p2: the slope of the second line, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(N, *, C, *) -> (N, *, C, *)`` with ``C`` at ``dim``.

    Ma et al., 2021, "Activate or Not: Learning Customized Activation", arXiv:2009.04759.
    """
    check_input("meta_acon", x)
    axis = _channel_axis(x, dim)
    if not isinstance(switch, Tensor) or tuple(switch.shape) != (x.shape[0], x.shape[axis]):
        raise ArgumentError(
            "meta_acon: switch must hold one number per sample and channel",
            got=describe_shape(switch),
            allowed=f"({x.shape[0]}, {x.shape[axis]})",
        )
    first = per_channel("meta_acon", "p1", p1, x, dim)
    second = per_channel("meta_acon", "p2", p2, x, dim)
    beta = torch.sigmoid(cast_like_input("meta_acon", "switch", switch, x))
    beta = per_sample_and_channel(beta, x, axis)
    return in_compute_dtype(smooth_maximum, x, first, second, beta)


def _channel_axis(x: Tensor, dim: int) -> int:
    axis = resolve_dim("meta_acon", x, dim)
    if axis == 0:
        raise ArgumentError(
            "meta_acon: dim must not be the batch dimension",
            got=dim,
            fix="add a batch dimension in front",
        )
    return axis


def _reference(
    x: Tensor,
    switch: Tensor,
    p1: Tensor,
    p2: Tensor,
    dim: int = 1,
) -> Tensor:
    x = x.movedim(dim, -1)
    beta = torch.special.expit(switch).reshape(x.shape[0], *[1] * (x.dim() - 2), x.shape[-1])
    return ((p1 - p2) * x * torch.special.expit(beta * (p1 - p2) * x) + p2 * x).movedim(-1, dim)


def _probe(x: Tensor) -> dict:
    """Return fixed slopes and one switch, so that the function is elementwise."""
    ones = torch.ones(x.shape[1], dtype=torch.float32)
    return {
        "switch": torch.zeros(x.shape[:2], dtype=torch.float32),
        "p1": 1.2 * ones,
        "p2": -0.3 * ones,
    }


@unit(
    name="meta_acon",
    title="Meta-ACON",
    family="context",
    on="gate > 1/2",
    function=meta_acon,
    formula=r"(p_1 - p_2)\,x\,\sigma(\beta(p_1 - p_2)x) + p_2\,x,\quad "
    r"\beta = \sigma(W_2 W_1 \bar{x})",
    paper="Ma et al., 2021 (arXiv:2009.04759)",
    studied_in=("iieu",),
    reference=_reference,
    limits=lambda: slope_limits(1.2, -0.3),
    parameters={
        "p1": "N(0, 1)",
        "p2": "N(0, 1)",
        "reduce": "as nn.Linear",
        "expand": "as nn.Linear",
        "reduce_norm": "1 and 0",
        "expand_norm": "1 and 0",
    },
    probe=_probe,
    needs=("channels",),
    largest=1e38,
    error=error_bounds(
        float32=promise(4, 2**-22, back_absolute=2**-18),
    ),
    samples=(
        {
            "channels": 6,
            "reduction": 2,
            "p1": 1.2,
            "p2": -0.3,
        },
        {
            "channels": 6,
            "reduction": 2,
            "norm": "none",
        },
        {
            "channels": 6,
            "reduction": 2,
            "norm": "layer",
        },
    ),
    note="norm='batch', as published, cannot train on a batch of one; 'layer' and 'none' can.",
)
class MetaACON(AconModule):
    """ACON-C with a switch network: mean over positions, C -> max(r, C/r) -> C, each with a norm.

    Args:
        channels: the number of channels ``C``.
        reduction: ``r`` above.
        norm: ``"batch"`` as published, which needs more than one sample in training; ``"layer"``
            normalises over channels; ``"none"`` leaves the norms out, as many copies do.
        p1: the start value of the first slope; ``None`` draws it from N(0, 1).
        p2: the start value of the second slope; ``None`` draws it from N(0, 1).
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    NORMS = ("batch", "layer", "none")

    def __init__(
        self,
        *,
        channels: int,
        reduction: int = 16,
        norm: str = "batch",
        p1: float | None = None,
        p2: float | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            "meta_acon",
            channels,
            p1,
            p2,
            dim,
            device,
            dtype,
            reduction=reduction,
            norm=norm,
        )
        self.norm = check_choice("meta_acon", "norm", norm, self.NORMS)
        check_count("meta_acon", "reduction", reduction, least=1)
        hidden = max(reduction, self.channels // reduction)
        norm_type = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}.get(norm, nn.Identity)
        with allocating("meta_acon", device, dtype):
            self.reduce = nn.Linear(self.channels, hidden, device=device, dtype=dtype)
            self.expand = nn.Linear(hidden, self.channels, device=device, dtype=dtype)
            self.reduce_norm = norm_type(hidden, device=device, dtype=dtype)
            self.expand_norm = norm_type(self.channels, device=device, dtype=dtype)
        super().reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters, and reset the running statistics of the norms."""
        super().reset_parameters()
        for part in (self.reduce, self.expand, self.reduce_norm, self.expand_norm):
            if not isinstance(part, nn.Identity):
                part.reset_parameters()

    def switch(self, x: Tensor) -> Tensor:
        """Return the logits of the switch, ``(N, C)``.

        Args:
            x: the input of the unit.
        """
        axis = _channel_axis(check_input("meta_acon", x), self.dim)
        positions = check_feature_maps("meta_acon", x, axis, self.channels)
        self._check_batch(x)
        mean = mean_without_overflow(to_compute_dtype(x), positions)
        # The norms square the mean, which may overflow.
        mean = detach_overflowing(mean, -1).to(self.reduce.weight.dtype)
        hidden = self.reduce_norm(self.reduce(mean))
        return self.expand_norm(self.expand(hidden))

    def _check_batch(self, x: Tensor) -> None:
        cast_like_input("meta_acon", "the switch network", self.reduce.weight, x)
        if self.training and self.norm == "batch" and x.shape[0] == 1:
            raise ArgumentError(
                "meta_acon: batch norm cannot train on a batch of one",
                got=f"shape {tuple(x.shape)}",
                allowed="2 samples or more",
                fix="MetaACON(norm='layer') or norm='none', or module.eval()",
            )

    def arguments(self, x: Tensor) -> dict:
        return {
            "switch": self.switch(x),
            "p1": self.p1,
            "p2": self.p2,
            "dim": self.dim,
        }

    def forward(self, x: Tensor) -> Tensor:
        return meta_acon(x, **self.arguments(x))
