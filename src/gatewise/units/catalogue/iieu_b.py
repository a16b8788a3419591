"""IIEU-B: a response weighted by how similar its patch and its filter are, plus a learned shift."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.units.contract import (
    SCOPES,
    Device,
    DType,
    Limits,
    TermB,
    UnitModule,
    allocating,
    at_least,
    cast_like_input,
    check_channels,
    check_choice,
    check_input,
    check_number,
    check_producer,
    check_source,
    filter_norm,
    max_magnitude,
    mean_without_overflow,
    patch_norm,
    per_channel,
    promise,
    resolve_dim,
    saturation_bound,
    softplus,
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
    r"""Weight each response ``x`` by its similarity.

    Of the filter it came from with the patch it came from.

    .. math:: \phi(x) = \varsigma(s + \nu)\,x, \qquad s = \frac{x}{\|w\| \|p\|}, \qquad
        \varsigma(\rho) = \begin{cases} \rho & \rho \ge \eta \\ \eta\,e^{\rho - \eta} & \rho < \eta \end{cases}

    ``patch`` is the length of the patch, a number or a tensor that broadcasts against ``x``;
    ``filter_norm`` that of the filter and ``eta`` the threshold, one number or one per channel of
    ``dim``; ``shift`` is :math:`\nu`, one number, one per channel, one per sample and channel
    ``(N, C)``, or a tensor that broadcasts. Where a length is 0 there is no direction to be similar
    to, and :math:`s = 0`. Shape: ``(*) -> (*)``. The weight is continuous with a corner at ``eta``,
    where its derivative is taken to be 1, the right-hand one.

    Cai, 2023, "IIEU: Rethinking Neural Feature Activation from Decision-Making", ICCV. Correction:
    the similarity lies in [-1, 1] (the supplement's C.1 says [0, 1]), and only where no norm stands
    between the filter and ``x``.
    """
    w = to_compute_dtype(check_input("iieu_b", x))
    s = similarity(w, patch, filter_norm, dim)
    shift, threshold = (
        _broadcasting("shift", shift, x, dim),
        per_channel("iieu_b", "eta", eta, x, dim),
    )
    shift, threshold = _settle(w, dim, shift, threshold)
    rho = s + shift
    gate, decay = _adjusted(rho, threshold)
    # A gate that decayed to 0 also stops an infinite response; `decay` and not `gate` is asked, for
    # where eta is 0 the gate is 0 too, but its derivative with respect to eta is not.
    return (torch.where(decay == 0, 0.0, w) * gate).to(x.dtype)


def _settle(w: Tensor, dim: int, *values: Value) -> list[Value]:
    """Shift and threshold, constants where they meet a channel with responses far out.

    See Note [Far out].

    Their gradient is the response, summed over positions.
    """
    positions = [i for i in range(1, w.dim()) if i != dim % w.dim()]
    far_out = max_magnitude(w, positions, keepdim=True) > saturation_bound(w)
    return [torch.where(far_out, v.detach(), v) if isinstance(v, Tensor) else v for v in values]


def similarity(x: Tensor, patch: Value, filter_norm: Value, dim: int) -> Tensor:
    """Term-S: ``x`` over both lengths, 0 where either is 0.

    The patch goes first: in that order no product of the backward pass exceeds the square of what
    is finite.
    """
    lengths = (
        _broadcasting("patch", patch, x, dim),
        per_channel("iieu_b", "filter_norm", filter_norm, x, dim),
    )
    for length in lengths:
        x = x * _inverse(length)
    return x


def _inverse(length: Value) -> Value:
    if not isinstance(length, Tensor):
        return 1.0 / length if length else 0.0
    none = length == 0
    return torch.where(none, 0.0, 1.0 / torch.where(none, 1.0, length))


def _adjusted(rho: Tensor, eta: Value) -> tuple[Tensor, Tensor]:
    """The weight, and the exponential in it.

    The exponent is bounded before it is used, so no branch overflows.
    """
    below = rho < eta
    decay = torch.exp(torch.where(below, rho - eta, 0.0))
    return torch.where(below, eta * decay, rho), decay


def _broadcasting(name: str, value: Value, x: Tensor, dim: int) -> Value:
    """``value`` as it is combined with ``x``.

    Per channel, per sample and channel, or of the rank of ``x``.
    """
    if not isinstance(value, Tensor) or value.dim() < 2:
        return per_channel("iieu_b", name, value, x, dim)
    wide = cast_like_input("iieu_b", name, value, x)
    axis = resolve_dim("iieu_b", x, dim)
    if value.dim() == 2 and tuple(value.shape) == (x.shape[0], x.shape[axis]):
        return wide.reshape([x.shape[i] if i in (0, axis) else 1 for i in range(x.dim())])
    if value.dim() == x.dim() and all(
        n == 1 or n == m for n, m in zip(value.shape, x.shape, strict=True)
    ):
        return wide
    raise ArgumentError(
        f"iieu_b: {name} does not fit the input",
        got=f"{name} of shape {tuple(value.shape)} for an input of shape {tuple(x.shape)}",
        allowed=f"a number, ({x.shape[axis]},), {(x.shape[0], x.shape[axis])}, or a shape that broadcasts",
    )


def _reference(
    x: Tensor, patch: float, filter_norm: float, shift: float, eta: float, dim: int = 1
) -> Tensor:
    m = x / (patch * filter_norm) + shift - eta
    return torch.where(m < 0, eta * x * torch.exp(m.clamp(max=0)), (eta + m) * x)


class Terms(NamedTuple):
    """What the weight of a response is made of."""

    similarity: Tensor  # Term-S, of the response's shape
    shift: Tensor  # Term-B, (N, C)
    eta: Tensor  # (C,)
    gate: Tensor  # the weight, of the response's shape


@unit(
    name="iieu_b",
    title="Instantaneous importance estimation unit, basic",
    family="context",
    function=iieu_b,
    formula=r"(\max(\rho, \eta) + \eta\,(e^{\min(\rho - \eta,\ 0)} - 1))\,x,\quad \rho = \frac{x}{\|w\|\,\|p\|} + \nu",
    paper="Cai, 2023 (ICCV)",
    studied_in=("iieu",),
    reference=_reference,
    limits=Limits(minus=(0.0,), plus=(math.inf,)),
    kinks={
        -0.45: math.nan
    },  # of the probe; which side the nearest input falls on is a matter of rounding
    parameters={"eta": "0.05", "shift.weight": "0.01", "shift.bias": "0"},
    # similarities are small where filters are long, so half the response is passed on
    init_gain=2.0,
    probe=lambda x: {
        "patch": 1.0,
        "filter_norm": 1.0,
        "shift": 0.5,
        "eta": 0.05,
    },  # lengths 1, start values
    needs=("channels",),
    error={
        "float16": promise(1),
        "bfloat16": promise(1),
        # The exponent's last bits are worth 2^-24 of it: at most 2^-28 of the value. The derivative
        # also crosses 0.
        "float32": promise(4, 2**-28, back_absolute=2**-24),
    },
    samples=(
        {"channels": 6},
        {"channels": 6, "term_b": "group", "groups": 3, "constrain": "softplus"},
        {"channels": 6, "term_b": "batch", "constrain": "clamp"},
        {"channels": 6, "term_b": "affine", "eta": 0.1},
    ),
    note="Bound to a layer it needs that layer's input too; gatewise.nn.ConvIIEU keeps layer, norm and unit together.",
)
class IIEUB(UnitModule):
    r"""IIEU-B as a module, with threshold ``eta`` and the weight and bias of Term-B, all per channel: 3C parameters.

    A response alone does not say which patch and filter it came from, so there are three ways to call it:

    - ``unit(x, source)`` where the unit was built with ``conv=layer``, the convolution or linear layer that made ``x``
      (with or without a norm in between) from ``source``. The layer is not registered a second time: its parameters
      stay where they are in state_dict, optimiser and DDP buckets. Under FSDP, shard layer and unit as one block.
    - ``unit(x, source, conv=layer)`` where the layer is handed in, and the unit holds no reference to it.
    - ``unit(x)`` without any layer: the layer is the identity, that is ``x`` is its own patch and the filters are unit
      vectors: :math:`s_c = x_c / \|x\|` at each position, the length taken over channels.

    For conv, norm and unit in one module that is called like a convolution, see :class:`~gatewise.layers.ConvIIEU`.

    Args:
        channels: ``C``; taken from ``conv`` where that is given. conv: the layer the unit is bound to.
        term_b: what Term-B normalises the mean responses over: ``"layer"`` (all channels of a sample, as published),
            ``"group"`` (each of ``groups`` runs of channels; with ``groups=C`` only the bias is left), ``"batch"``, or
            ``"affine"`` (nothing), the variants of the paper's ablation; all start with weight 0.01 and bias 0.
        norm_scope: for grouped convolutions: ``"all"`` measures the patch over all input channels as the authors' code
            does, which makes similarities too small by about the root of the number of groups; ``"group"`` over those
            the filter sees, as the definition has it.
        eta: start of the threshold. constrain: ``"none"`` as published, where training may push ``eta`` below 0 and
            with it the weight; ``"softplus"`` makes it softplus of the parameter, ``"clamp"`` cuts it off at 0.
        eps: added to each length as in the authors' code; a length that does not exceed it counts as 0.
        dim: the channel dimension; the last one for a unit bound to a linear layer.
        device, dtype: those of ``conv`` where they are not given.

    Weight decay: parameters are 1-dimensional, so that recipes which go by that spare them, and
    :meth:`no_weight_decay` names them. The authors' recipe spared weight and bias of Term-B but decayed ``eta``.
    """

    eta: nn.Parameter
    filter_norm: Tensor | None

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
        self.start = check_number(
            "iieu_b", "eta", eta, above=-math.inf if constrain == "none" else 0.0
        )
        self.eps = check_number("iieu_b", "eps", eps, above=0.0)
        self.dim = -1 if isinstance(conv, nn.Linear) else dim
        self._bound = (
            () if conv is None else (conv,)
        )  # in a tuple, so that the layer is not registered again
        if conv is not None:
            weight = check_producer("iieu_b", conv).weight
            device, dtype = device or weight.device, dtype or weight.dtype
        with allocating("iieu_b", device, dtype):
            self.eta = nn.Parameter(torch.empty(self.channels, device=device, dtype=dtype))
        self.shift = TermB(self.channels, term_b, groups, device=device, dtype=dtype)
        self.register_buffer("filter_norm", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the threshold and Term-B to their starting values."""
        start = self.start if self.constrain != "softplus" else math.log(math.expm1(self.start))
        nn.init.constant_(self.eta, start)
        self.shift.reset_parameters()

    def no_weight_decay(self) -> set[str]:
        """Names of the parameters that weight decay should spare.

        All, for their starts are not 0 for nothing.
        """
        return {name for name, _ in self.named_parameters()}

    def keep_filter_norm(self, conv: nn.Module) -> None:
        """Remember the lengths of the filters as they are now, as a buffer, and no longer read them from the layer.

        For inference: a norm can then be folded into the layer, which rescales its filters, and the unit's output
        stays as it was.
        """
        with torch.no_grad():
            self.filter_norm = filter_norm(check_producer("iieu_b", conv).weight, self.eps)

    def terms(
        self, x: Tensor, source: Tensor | None = None, *, conv: nn.Module | None = None
    ) -> Terms:
        """Term-S, Term-B, threshold and weight for the response ``x``, called as the module itself."""
        given = self.arguments(x, source, conv)
        w = to_compute_dtype(x)
        s = similarity(w, given["patch"], given["filter_norm"], self.dim)
        rho = s + _broadcasting("shift", given["shift"], x, self.dim)
        gate, _ = _adjusted(rho, per_channel("iieu_b", "eta", given["eta"], x, self.dim))
        return Terms(s, given["shift"], given["eta"], gate)

    def threshold(self) -> Tensor:
        """The threshold in force, after the constraint."""
        if self.constrain == "softplus":
            return softplus(to_compute_dtype(self.eta))
        return at_least(self.eta, 0.0) if self.constrain == "clamp" else self.eta

    def arguments(
        self, x: Tensor, source: Tensor | None = None, conv: nn.Module | None = None
    ) -> dict[str, Any]:
        axis = self._check_response(x)
        cast_like_input("iieu_b", "eta", self.eta, x)
        patch, filters = self._lengths(x, axis, source, conv)
        positions = [i for i in range(1, x.dim()) if i != axis]
        means = (
            mean_without_overflow(to_compute_dtype(x), positions)
            if positions
            else to_compute_dtype(x)
        )
        return {
            "patch": patch,
            "filter_norm": filters,
            "shift": self.shift(means),
            "eta": self.threshold(),
            "dim": self.dim,
        }

    def forward(
        self, x: Tensor, source: Tensor | None = None, conv: nn.Module | None = None
    ) -> Tensor:
        return iieu_b(x, **self.arguments(x, source, conv))

    def _lengths(
        self, x: Tensor, axis: int, source: Tensor | None, conv: nn.Module | None
    ) -> tuple[Tensor, float | Tensor]:
        layer = conv if conv is not None else self._bound[0] if self._bound else None
        if (layer is None) != (source is None):
            raise ArgumentError(
                "iieu_b: patches are measured on a layer and its input, of which one is missing",
                got="no input of the layer" if source is None else "no layer",
                allowed="both or neither",
                fix="unit(layer(source), source, conv=layer)",
            )
        if layer is None or source is None:
            return vector_norm(x, axis, self.eps), 1.0
        made_by = check_producer("iieu_b", layer)
        patch = patch_norm(
            check_source("iieu_b", source, made_by), made_by, scope=self.norm_scope, eps=self.eps
        )
        kept = self.filter_norm
        return patch, kept if kept is not None else filter_norm(made_by.weight, self.eps)

    def _check_response(self, x: Tensor) -> int:
        axis = resolve_dim("iieu_b", check_input("iieu_b", x), self.dim)
        if axis == 0:
            raise ArgumentError(
                "iieu_b: the input needs a batch dimension in front of the channels",
                got=f"shape {tuple(x.shape)}, dim={self.dim}",
                fix="x[None]",
            )
        if x.shape[axis] != self.channels:
            raise ArgumentError(
                "iieu_b: the input has another channel count than the unit",
                got=f"{x.shape[axis]} in shape {tuple(x.shape)}",
                allowed=self.channels,
            )
        if x.shape[0] and not x.numel():
            raise ArgumentError(
                "iieu_b: there is no position to take the mean over", got=f"shape {tuple(x.shape)}"
            )
        return axis


def _channels_of(channels: int | None, conv: nn.Module | None) -> int:
    if conv is None:
        return check_channels("iieu_b", channels, required=True) or 1
    layer = check_producer("iieu_b", conv)
    count = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if channels not in (None, count):
        raise ArgumentError(
            "iieu_b: the layer has another number of outputs", got=channels, allowed=count
        )
    return count
