"""IIEU-B: a response weighted by the similarity of patch and filter, plus a learned shift."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from gatewise.checks import check_choice, check_number
from gatewise.errors import ArgumentError
from gatewise.units.block import run_block
from gatewise.units.contract import (
    RECTIFIED,
    SCOPES,
    Device,
    DType,
    TermB,
    UnitModule,
    allocating,
    at_least,
    cast_like_input,
    check_channels,
    check_feature_maps,
    check_input,
    check_producer,
    check_source,
    detach_saturated,
    error_bounds,
    filter_norm,
    in_compute_dtype,
    mean_without_overflow,
    patch_norm,
    per_channel,
    per_sample_and_channel,
    promise,
    resolve_dim,
    to_compute_dtype,
    unit,
    vector_norm,
)

CONSTRAINTS = ("none", "softplus", "clamp")
Value = float | Tensor


def iieu_b(
    x: Tensor,
    patch: Value,
    filter_norm: Value = 1.0,
    shift: Value = 0.5,
    eta: Value = 0.05,
    dim: int = 1,
) -> Tensor:
    r"""Weight each response ``x`` by the similarity of the filter and the patch that made it.

    .. math:: \phi(x) = \varsigma(s + \nu)\,x, \qquad s = \frac{x}{\|w\| \|p\|}, \qquad
        \varsigma(\rho) = \begin{cases} \rho & \rho \ge \eta \\
        \eta\,e^{\rho - \eta} & \rho < \eta \end{cases}

    Where a length is 0 there is no direction, and :math:`s = 0`. The weight is continuous with a
    corner at ``eta``, where its derivative is 1, the right-hand one.

    Args:
        x: the responses, a real floating point tensor.
        patch: the length :math:`\|p\|` of the patch, a number or a tensor that broadcasts with
            ``x``.
        filter_norm: the length :math:`\|w\|` of the filter, one number or one per channel.
        shift: :math:`\nu`, one number, one per channel, one per sample and channel ``(N, C)``, or a
            tensor that broadcasts with ``x``.
        eta: the threshold, one number or one per channel.
        dim: the channel dimension of the input.

    Shape: ``(*) -> (*)``.

    Cai, 2023, "IIEU: Rethinking Neural Feature Activation from Decision-Making", ICCV. Correction:
    the similarity lies in [-1, 1] (the supplement's C.1 says [0, 1]), and only if there is no norm
    between the filter and ``x``.
    """
    check_input("iieu_b", x)
    return in_compute_dtype(
        _plain,
        x,
        _inverse(_broadcasting("patch", patch, x, dim)),
        _inverse(per_channel("iieu_b", "filter_norm", filter_norm, x, dim)),
        _broadcasting("shift", shift, x, dim),
        per_channel("iieu_b", "eta", eta, x, dim),
    )


def _plain(
    w: Tensor,
    inverse_patch: Value,
    inverse_filter: Value,
    shift: Value,
    eta: Value,
) -> Tensor:
    # The gradient of shift and threshold is the response, summed over positions. See Note [Far out]
    # in the arithmetic of units.
    shift = _freeze_far_out(w, shift)
    eta = _freeze_far_out(w, eta)
    rho = (w * inverse_patch) * inverse_filter + shift
    gate, decay = _adjusted(rho, eta)
    # A gate that decayed to 0 also stops an infinite response. The test is on `decay`, not on
    # `gate`: where eta is 0 the gate is 0 too, but its derivative with respect to eta is not.
    return torch.where(decay == 0, 0.0, w) * gate


def _freeze_far_out(w: Tensor, value: Value) -> Value:
    """Return ``value``, detached where a response is far out."""
    if isinstance(value, (int, float)):
        return value
    return detach_saturated(w, value)


def similarity(
    x: Tensor,
    patch: Value,
    filter_norm: Value,
    dim: int,
) -> Tensor:
    """Return Term-S: ``x`` divided by both lengths, 0 where either is 0.

    The division by the patch goes first. In that order no product of the backward pass exceeds the
    square of what is finite.
    """
    x = x * _inverse(_broadcasting("patch", patch, x, dim))
    return x * _inverse(per_channel("iieu_b", "filter_norm", filter_norm, x, dim))


def _inverse(length: Value) -> Value:
    if not isinstance(length, Tensor):
        return 1.0 / length if length else 0.0
    is_zero = length == 0
    return torch.where(is_zero, 0.0, 1.0 / torch.where(is_zero, 1.0, length))


def _adjusted(rho: Tensor, eta: Value) -> tuple[Tensor, Tensor]:
    """Return the weight, and the exponential in it.

    The exponent is bounded before it is used, so no branch overflows.
    """
    below = rho < eta
    decay = torch.exp(torch.where(below, rho - eta, 0.0))
    return torch.where(below, eta * decay, rho), decay


def _broadcasting(
    name: str,
    value: Value,
    x: Tensor,
    dim: int,
) -> Value:
    """Return ``value`` in a shape that broadcasts with ``x``.

    It may be given per channel, per sample and channel, or with the rank of ``x``.
    """
    if not isinstance(value, Tensor) or value.dim() < 2:
        return per_channel("iieu_b", name, value, x, dim)
    wide = cast_like_input("iieu_b", name, value, x)
    axis = resolve_dim("iieu_b", x, dim)
    if value.dim() == 2 and tuple(value.shape) == (x.shape[0], x.shape[axis]):
        return per_sample_and_channel(wide, x, axis)
    # Compared one by one: the compiler's symbolic sizes are not found in a tuple.
    pairs = zip(value.shape, x.shape, strict=False)
    if value.dim() == x.dim() and all(n == 1 or n == m for n, m in pairs):
        return wide
    raise ArgumentError(
        f"iieu_b: {name} does not fit the input",
        got=f"{name} of shape {tuple(value.shape)} for an input of shape {tuple(x.shape)}",
        allowed=f"a number, ({x.shape[axis]},), {(x.shape[0], x.shape[axis])}, "
        "or a shape that broadcasts",
    )


def _reference(
    x: Tensor,
    patch: float,
    filter_norm: float,
    shift: float,
    eta: float,
    dim: int = 1,
) -> Tensor:
    m = x / (patch * filter_norm) + shift - eta
    return torch.where(m < 0, eta * x * torch.exp(m.clamp(max=0)), (eta + m) * x)


class Terms(NamedTuple):
    """The terms of which the weight of a response is made."""

    similarity: Tensor  # Term-S, of the response's shape
    shift: Tensor  # Term-B, (N, C)
    eta: Tensor  # (C,)
    gate: Tensor  # the weight, of the response's shape


@unit(
    name="iieu_b",
    title="Instantaneous importance estimation unit, basic",
    family="context",
    on="similarity >= threshold",
    function=iieu_b,
    formula=r"(\max(\rho, \eta) + \eta\,(e^{\min(\rho - \eta,\ 0)} - 1))\,x,\quad "
    r"\rho = \frac{x}{\|w\|\,\|p\|} + \nu",
    paper="Cai, 2023 (ICCV)",
    studied_in=("iieu",),
    reference=_reference,
    limits=RECTIFIED,
    # Of the probe. Rounding decides on which side the nearest input falls.
    kinks={-0.45: math.nan},
    parameters={
        "eta": "0.05",
        "shift.weight": "0.01",
        "shift.bias": "0",
    },
    # Similarities are small for long filters, so about half of the response passes.
    init_gain=2.0,
    # Lengths 1, and start values.
    probe=lambda x: {
        "patch": 1.0,
        "filter_norm": 1.0,
        "shift": 0.5,
        "eta": 0.05,
    },
    needs=("channels",),
    # The exponent's last bits are worth 2^-24 of it: at most 2^-28 of the value. The derivative
    # also crosses 0.
    error=error_bounds(
        half=promise(1),
        float32=promise(4, 2**-28, back_absolute=2**-24),
    ),
    samples=(
        {"channels": 6},
        {
            "channels": 6,
            "term_b": "group",
            "groups": 3,
            "constrain": "softplus",
        },
        {
            "channels": 6,
            "term_b": "batch",
            "constrain": "clamp",
        },
        {
            "channels": 6,
            "term_b": "affine",
            "eta": 0.1,
        },
    ),
    note="A unit bound to a layer also needs that layer's input; "
    "gatewise.nn.ConvIIEU holds layer, norm and unit.",
)
class IIEUB(UnitModule):
    r"""IIEU-B as a module with 3C parameters: a threshold, and weight and bias of Term-B.

    A response alone does not say which patch and filter it came from. There are three ways to call
    it:

    - ``unit(x, source)`` if the unit was built with ``conv=layer``, the convolution or linear layer
      that made ``x`` from ``source``, with or without a norm in between. The layer is not
      registered a second time: its parameters stay where they are in state_dict, optimiser and DDP
      buckets. Under FSDP, shard layer and unit as one block.
    - ``unit(x, source, conv=layer)`` passes the layer, and the unit holds no reference to it.
    - ``unit(x)`` without any layer takes the layer to be the identity: ``x`` is its own patch and
      the filters are unit vectors, so :math:`s_c = x_c / \|x\|` at each position, with the length
      over channels.

    :class:`~gatewise.layers.ConvIIEU` holds convolution, norm and unit in one module that is called
    like a convolution.

    The parameters are 1-dimensional, so recipes that go by that spare them from weight decay, and
    :meth:`no_weight_decay` names them. The authors' recipe spared weight and bias of Term-B but
    decayed ``eta``.

    Args:
        channels: the number of channels ``C``; taken from ``conv`` if that is given.
        conv: the layer to which the unit is bound.
        term_b: over what Term-B normalises the mean responses: ``"layer"`` (all channels of a
            sample, as published), ``"group"`` (each of ``groups`` runs of channels; with
            ``groups=C`` only the bias is left), ``"batch"``, or ``"affine"`` (nothing), the
            variants of the paper's ablation. All start with weight 0.01 and bias 0.
        groups: the number of groups for ``term_b="group"``.
        norm_scope: for grouped convolutions, ``"all"`` measures the patch over all input channels
            as the authors' code does, which makes similarities too small by about the root of the
            number of groups; ``"group"`` measures it over those that the filter sees, as the
            definition says.
        eta: the start value of the threshold.
        constrain: ``"none"`` as published, where training may push ``eta`` and the weight below 0;
            ``"softplus"`` makes the threshold softplus of the parameter, ``"clamp"`` cuts it off at
            0.
        eps: added to each length as in the authors' code; a length of at most ``eps`` counts as 0.
        dim: the channel dimension; the last one for a unit bound to a linear layer.
        device: the device of the parameters; that of ``conv`` by default.
        dtype: the dtype of the parameters; that of ``conv`` by default.
    """

    fusable = False
    weigh = staticmethod(iieu_b)

    eta: nn.Parameter  # (C,), before the constraint
    filter_norm: Tensor | None  # (C,), a buffer of stored lengths after `keep_filter_norm`

    def __init__(
        self,
        *,
        channels: int | None = None,
        conv: nn.Module | None = None,
        term_b: str = "layer",
        groups: int | None = None,
        norm_scope: str = "all",
        eta: float = 0.05,
        constrain: str = "none",
        eps: float = 1e-8,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        count = _channels_of(channels, conv)
        super().__init__(
            channels=count,
            term_b=term_b,
            groups=groups,
            norm_scope=norm_scope,
            eta=eta,
            constrain=constrain,
            eps=eps,
            dim=dim,
        )
        self.channels = count
        self.norm_scope = check_choice("iieu_b", "norm_scope", norm_scope, SCOPES)
        self.constrain = check_choice("iieu_b", "constrain", constrain, CONSTRAINTS)
        lowest = -math.inf if constrain == "none" else 0.0
        self.start = check_number("iieu_b", "eta", eta, above=lowest)
        self.eps = check_number("iieu_b", "eps", eps, above=0.0)
        self.dim = -1 if isinstance(conv, nn.Linear) else dim
        # In a tuple, so that the layer is not registered again.
        self._bound = () if conv is None else (conv,)
        if conv is not None:
            weight = check_producer("iieu_b", conv).weight
            device = device or weight.device
            dtype = dtype or weight.dtype
        with allocating("iieu_b", device, dtype):
            self.eta = nn.Parameter(torch.empty(self.channels, device=device, dtype=dtype))
        self.shift = TermB(self.channels, term_b, groups, device=device, dtype=dtype)
        self.register_buffer("filter_norm", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the threshold and Term-B to their start values."""
        start = self.start if self.constrain != "softplus" else math.log(math.expm1(self.start))
        nn.init.constant_(self.eta, start)
        self.shift.reset_parameters()

    def no_weight_decay(self) -> set[str]:
        """Return the names of the parameters that weight decay should spare: all of them."""
        return {name for name, _ in self.named_parameters()}

    def keep_filter_norm(self, conv: nn.Module) -> None:
        """Store the present lengths of the filters as a buffer, and no longer read the layer.

        This is for inference. A norm can then be folded into the layer, which rescales its filters,
        and the unit's output stays the same.

        Args:
            conv: the layer that makes the responses.
        """
        with torch.no_grad():
            self.filter_norm = filter_norm(check_producer("iieu_b", conv).weight, self.eps)

    def terms(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        conv: nn.Module | None = None,
    ) -> Terms:
        """Return Term-S, Term-B, threshold and weight for the response ``x``.

        Args:
            x: the response.
            source: the input of the layer that made the response.
            conv: the layer, if the unit is not bound to one.
        """
        values = self.arguments(x, source, conv)
        w = to_compute_dtype(x)
        s = similarity(w, values["patch"], values["filter_norm"], self.dim)
        rho = s + _broadcasting("shift", values["shift"], x, self.dim)
        gate, _ = _adjusted(rho, per_channel("iieu_b", "eta", values["eta"], x, self.dim))
        return Terms(s, values["shift"], values["eta"], gate)

    def threshold(self) -> Tensor:
        """Return the threshold after the constraint."""
        if self.constrain == "softplus":
            return functional.softplus(to_compute_dtype(self.eta))
        if self.constrain == "clamp":
            return at_least(self.eta, 0.0)
        return self.eta

    def arguments(
        self,
        x: Tensor,
        source: Tensor | None = None,
        conv: nn.Module | None = None,
    ) -> dict[str, Any]:
        axis = self._channel_axis(x)
        positions = check_feature_maps("iieu_b", x, axis, self.channels)
        cast_like_input("iieu_b", "eta", self.eta, x)
        patch, filters = self._lengths(x, axis, source, conv)
        means = mean_without_overflow(to_compute_dtype(x), positions)
        return {
            "patch": patch,
            "filter_norm": filters,
            "shift": self.shift(means),
            "eta": self.threshold(),
            "dim": self.dim,
        }

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        conv: nn.Module | None = None,
    ) -> Tensor:
        layer = conv if conv is not None else self._bound[0] if self._bound else None
        if layer is not None and isinstance(source, Tensor):
            y = run_block(layer, None, self, source, x)
            if y is not None:
                return y
        return iieu_b(x, **self.arguments(x, source, conv))

    def _lengths(
        self,
        x: Tensor,
        axis: int,
        source: Tensor | None,
        conv: nn.Module | None,
    ) -> tuple[Tensor, float | Tensor]:
        layer = conv if conv is not None else self._bound[0] if self._bound else None
        if (layer is None) != (source is None):
            raise ArgumentError(
                "iieu_b: the unit needs both the layer and the layer's input",
                got="no input of the layer" if source is None else "no layer",
                allowed="both or neither",
                fix="unit(layer(source), source, conv=layer)",
            )
        if layer is None or source is None:
            return vector_norm(x, axis, self.eps), 1.0
        producer = check_producer("iieu_b", layer)
        check_source("iieu_b", source, producer)
        patch = patch_norm(source, producer, scope=self.norm_scope, eps=self.eps)
        if self.filter_norm is not None:
            return patch, self.filter_norm
        return patch, filter_norm(producer.weight, self.eps)

    def _channel_axis(self, x: Tensor) -> int:
        axis = resolve_dim("iieu_b", check_input("iieu_b", x), self.dim)
        if axis == 0:
            raise ArgumentError(
                "iieu_b: the input needs a batch dimension in front of the channels",
                got=f"shape {tuple(x.shape)}, dim={self.dim}",
                fix="x[None]",
            )
        return axis


def _channels_of(channels: int | None, conv: nn.Module | None) -> int:
    if conv is None:
        return check_channels("iieu_b", channels, required=True) or 1
    layer = check_producer("iieu_b", conv)
    count = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if channels not in (None, count):
        raise ArgumentError(
            "iieu_b: channels must be the layer's number of outputs",
            got=channels,
            allowed=count,
        )
    return count
