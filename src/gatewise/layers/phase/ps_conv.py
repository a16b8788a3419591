"""Phase selective convolution and linear layer: the sign of each input chooses its weight."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase.halves import Geometry, convolve_halves
from gatewise.layers.phase.phase_layer import PhaseLayer, Start, check_start, fill_phases, slope_of
from gatewise.layers.response import ConvolutionResponse, LinearResponse, layer_options
from gatewise.units import Device, DType

Self = TypeVar("Self", bound="PhaseSelective")


class PhaseSelective(PhaseLayer):
    """A response with one weight for the positive and one for the negative phase of its input."""

    plain: ClassVar[type[nn.Module]]
    weight: Tensor  # W+, (out, in / groups, *kernel)
    weight_neg: Tensor  # W-, of the same shape

    def build(
        self,
        bias: bool = True,
        *,
        start: Start = "independent",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        """Create and draw the parameters."""
        self.start = check_start(self.layer, start)
        self.add_weight("weight", self.weight_shape, device, dtype)
        self.add_weight("weight_neg", self.weight_shape, device, dtype)
        self.add_bias(bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as ``start`` says, and the bias as torch's layers do."""
        fill_phases(self.weight, self.weight_neg, self.start)
        self.reset_uniform("bias")

    def forward(self, x: Tensor) -> Tensor:
        ready, weight, weight_neg = self.prepare(x, self.weight, self.weight_neg)
        self.warn_if_rectified(x)
        return self.two_phases(ready, weight, weight_neg).to(x.dtype)

    @classmethod
    def from_layer(cls: type[Self], layer: nn.Module, *, start: Start = "zero") -> Self:
        """Return the phase selective form of a plain ``layer``, with its weight as ``W+``.

        Args:
            layer: a layer of torch.
            start: the slope ``a`` in ``W- = a W+``. ``"zero"`` is ``layer`` after a rectifier,
                ``"same"`` is ``layer`` itself, a number is ``layer`` after a leaky rectifier.
        """
        check_start(cls.__name__, start)
        state = plain_state(cls.__name__, layer, cls.plain)
        selective = cls.like(layer, start, device="meta", dtype=state["weight"].dtype)
        selective.load_state_dict(with_negative_phase(state, "", start), assign=True)
        return selective.train(layer.training)

    @classmethod
    def like(
        cls: type[Self],
        layer: Any,
        start: Start,
        *,
        device: Device,
        dtype: DType,
    ) -> Self:
        """Return a new layer of the sizes of the plain ``layer``."""
        return cls(
            **layer_options(layer),
            start=start,
            device=device,
            dtype=dtype,
        )

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        # The state of a plain layer has no `weight_neg`.
        super()._load_from_state_dict(
            with_negative_phase(state_dict, prefix, self.start),
            prefix,
            *args,
            **kwargs,
        )

    def extra_repr(self) -> str:
        return super().extra_repr() + (
            "" if self.start == "independent" else f", start={self.start!r}"
        )


def plain_state(name: str, layer: nn.Module, plain: type[nn.Module]) -> dict[str, Tensor]:
    """Return a copy of the state of ``layer``, if it is exactly a ``plain`` layer.

    A subclass may compute anything.
    """
    state = layer.state_dict() if type(layer) is plain else {}
    if "weight" not in state or not set(state) <= {"weight", "bias"}:
        got, allowed = type(layer).__name__, f"a torch.nn.{plain.__name__} without parametrisation"
        raise ArgumentError(f"{name}: there is no form of that layer", got=got, allowed=allowed)
    return {key: value.detach().clone() for key, value in state.items()}


def with_negative_phase(state: Mapping[str, Any], prefix: str, start: Start) -> dict[str, Any]:
    """Return a plain layer's ``state`` with the missing ``weight_neg``: ``a * weight``.

    ``a`` is 0 if the start has no slope.
    """
    weight, name = state.get(f"{prefix}weight"), f"{prefix}weight_neg"
    if name in state or not isinstance(weight, Tensor):
        return dict(state)
    return {**state, name: (slope_of(start) or 0.0) * weight.detach()}


class PSLinear(PhaseSelective, LinearResponse):
    r"""Linear layer in which the sign of each input chooses its weight, as in :class:`PSConv2d`.

    .. math:: y = W^+ x^+ + W^- x^- + b, \qquad x^+ = \max(x, 0), \quad x^- = \min(x, 0)

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        bias: whether every output has a trainable bias.
        start: how ``W-`` starts, as in :class:`PSConv2d`.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, N) -> (*, M)``.

    >>> import torch
    >>> layer = PSLinear(1, 1, bias=False)
    >>> state = {"weight": torch.tensor([[1.0]]), "weight_neg": torch.tensor([[-1.0]])}
    >>> _ = layer.load_state_dict(state)
    >>> layer(torch.tensor([[2.0], [-3.0]])).tolist()
    [[2.0], [3.0]]
    """

    plain: ClassVar[type[nn.Module]] = nn.Linear


class PSConv1d(PhaseSelective, ConvolutionResponse):
    """Phase selective convolution of sequences: :class:`PSConv2d` over one dimension.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        start: how ``W-`` starts, as in :class:`PSConv2d`.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L) -> (N, M, L')``, with or without ``N``.
    """

    spatial: ClassVar[int] = 1
    plain: ClassVar[type[nn.Module]] = nn.Conv1d


class PSConv2d(PhaseSelective, ConvolutionResponse):
    r"""Convolution in which the sign of each input chooses its weight.

    .. math:: y = W^+ * x^+ + W^- * x^- + b, \qquad x^+ = \max(x, 0), \quad x^- = \min(x, 0)

    It replaces a rectifier **and** the convolution after it, so its input should be a
    pre-activation. An input that is already rectified does not train ``W-``, and gets a
    :class:`~gatewise.errors.RectifiedInputWarning` once. It equals ``Conv2d`` with the stacked
    weight ``[W+, -W-]`` after ``CReLU`` (whose second half is not negative, hence the sign). ``W- =
    0`` is ReLU and convolution, ``W- = W+`` the convolution alone, ``W- = a W+`` leaky ReLU, ``W- =
    -W+`` the absolute value. The derivative at ``x = 0`` is 0.

    The parameters are ``weight`` (W+), ``weight_neg`` (W-) and ``bias``. A plain layer's state can
    be loaded: a missing ``weight_neg`` becomes ``a * weight`` if ``start`` has a slope ``a``, and 0
    if ``start`` is ``"independent"``, which is the plain layer after its rectifier.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        start: how ``W-`` starts: ``"independent"`` of ``W+``; ``"zero"``, a ReLU network;
            ``"same"``, a linear one; or a number ``a``, a leaky one. Each weight is drawn so that
            the output keeps the mean square of an input symmetric around 0: variance ``1 /
            fan_in``, and ``2 / ((1 + a^2) fan_in)`` with a slope ``a``.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, M, H', W')``, with or without ``N``.

    Lin, Noorzad, Yang, Kwak and Porikli, 2021, "Phase Selective Convolution", CVPR Workshops, pp.
    3199-3208. The available text does not say how the authors start the weights; the rule here is
    derived.
    """

    spatial: ClassVar[int] = 2
    plain: ClassVar[type[nn.Module]] = nn.Conv2d

    def respond_to_halves(
        self,
        x: Tensor,
        weight: Tensor,
        weight_neg: Tensor,
        bias: Tensor | None,
    ) -> Tensor | None:
        """Return one convolution of both phases, for a layer without groups in eager mode."""
        if self.groups > 1:
            return None
        batch = x if x.dim() == 4 else x[None]
        y = convolve_halves(batch, weight, weight_neg, bias, Geometry(*self.geometry()))
        return y if y is None or x.dim() == 4 else y[0]
