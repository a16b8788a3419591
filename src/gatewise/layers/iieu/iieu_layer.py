"""ConvIIEU and LinearIIEU: a layer, a norm and IIEU-B in one, called like the layer."""

import copy
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call

from gatewise.errors import ArgumentError
from gatewise.layers.any_size import at_any_size, far_from
from gatewise.layers.iieu.batch_norm import check_norm, check_values, scale_and_offset
from gatewise.units import (
    IIEUB,
    LeafModule,
    Producer,
    Terms,
    check_input,
    check_producer,
    check_source,
    replace_infinities,
    run_block,
)

Self = TypeVar("Self", bound="IIEULayer")


class IIEULayer(LeafModule):
    """The base of :class:`ConvIIEU` and :class:`LinearIIEU`, which document the arguments."""

    # The attribute that holds the layer, which is the first part of its names in state_dict.
    holder: ClassVar[str]
    accepted: ClassVar[tuple[type[nn.Module], ...]]
    unit: IIEUB
    norm: nn.Module | None

    def __init__(
        self,
        layer: nn.Module,
        norm: nn.Module | None = None,
        *,
        term_b: str = "layer",
        groups: int | None = None,
        norm_scope: str = "all",
        eta: float = 0.05,
        constrain: str = "none",
        eps: float = 1e-8,
    ) -> None:
        super().__init__()
        producer = self._check_layer(layer)
        self.add_module(self.holder, producer)
        self.norm = check_norm(self.name, producer, norm)
        self.unit = IIEUB(
            channels=producer.weight.shape[0],
            term_b=term_b,
            groups=groups,
            norm_scope=norm_scope,
            eta=eta,
            constrain=constrain,
            eps=eps,
            dim=self.channel_dim,
            device=producer.weight.device,
            dtype=producer.weight.dtype,
        )

    @property
    def name(self) -> str:
        """The name of this layer in error messages."""
        return type(self).__name__

    @property
    def layer(self) -> Producer:
        """The convolution or linear layer."""
        return getattr(self, self.holder)

    @property
    def channel_dim(self) -> int:
        """The channel dimension of input and output."""
        return -1 if self.holder == "linear" else 1

    def reset_parameters(self) -> None:
        """Draw the layer's weights, and set norm and unit to their start values."""
        for part in self.children():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()

    def response(self, x: Tensor) -> Tensor:
        """Return what the unit weights: the layer's response, after the norm if there is one.

        Args:
            x: a batch of inputs.
        """
        weight = self.layer.weight
        check_source(self.name, x, self.layer)
        if torch.promote_types(weight.dtype, x.dtype) != weight.dtype:
            raise ArgumentError(
                f"{self.name}: the input is of higher precision than the weights",
                got=f"input {x.dtype}, weights {weight.dtype}",
                fix=f"module.to({x.dtype}) or x.to({weight.dtype})",
            )
        y = self._plain_response(x.to(weight.dtype))
        if self.norm is None:
            return y
        check_values(self.name, self.norm, y, self.channel_dim)
        return self._normed(self.norm, y)

    def _plain_response(self, x: Tensor) -> Tensor:
        """Return the layer's response, finite for any finite ``x``.

        A response far out is bounded by what a norm can square and add.
        """
        layer_bias = self.layer.bias

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            if bias is None or bias is layer_bias:
                return self.layer(x)
            return functional_call(self.layer, {"bias": bias}, (x,))

        dims = x.dim() - 1 if self.channel_dim == 1 else 1
        limit = None if self.norm is None else far_from(x.dtype)
        y = at_any_size(respond, x, layer_bias, dims=dims, limit=limit)
        return replace_infinities(y) if y.dtype == torch.float16 else y

    def terms(self, x: Tensor) -> Terms:
        """Return Term-S (similarity), Term-B (shift), threshold and weight of every response.

        Args:
            x: a batch of inputs.
        """
        return self.unit.terms(self.response(x), x, conv=self.layer)

    def fold(self: Self) -> Self:
        """Return a copy for inference, with the batch norm folded into the layer.

        The copy computes the same as this layer in evaluation mode. Folding rescales the filters,
        and the similarity is defined by their lengths before that, which are stored in the buffer
        ``unit.filter_norm``. Do not train the copy's filters, because the buffer would not follow.
        """
        folded = copy.deepcopy(self).eval()
        layer, norm = folded.layer, folded.norm
        folded.unit.keep_filter_norm(layer)
        if norm is None:
            return folded
        if not {"weight", "bias"} <= layer._parameters.keys():
            raise ArgumentError(
                f"{self.name}: a parametrised weight cannot be folded",
                got=type(layer).__name__,
                fix="torch.nn.utils.parametrize.remove_parametrizations(layer, 'weight')",
            )
        # In float64, so that the weights are rounded only once.
        with torch.no_grad():
            scale, offset = scale_and_offset(self.name, norm)
            weight = layer.weight.double()
            bias = 0.0 if layer.bias is None else layer.bias.double()
            shaped = scale.reshape(-1, *[1] * (weight.dim() - 1))
            layer.weight = nn.Parameter((weight * shaped).to(layer.weight.dtype))
            layer.bias = nn.Parameter((bias * scale + offset).to(layer.weight.dtype))
        folded.norm = None
        return folded

    def no_weight_decay(self) -> set[str]:
        """Return the names of the unit's parameters, which weight decay should spare."""
        return {f"unit.{name}" for name in self.unit.no_weight_decay()}

    def forward(self, x: Tensor) -> Tensor:
        # A sample without a batch dimension.
        if check_input(self.name, x).dim() == self.layer.weight.dim() - 1:
            return self(x[None])[0]
        y = run_block(self.layer, self.norm, self.unit, x)
        if y is not None:
            return y
        return self.unit(self.response(x), x, conv=self.layer).to(x.dtype)

    def _check_layer(self, layer: nn.Module) -> Producer:
        if not isinstance(layer, self.accepted):
            names = " or ".join(kind.__name__ for kind in self.accepted)
            raise ArgumentError(
                f"{self.name}: wrong type of layer",
                got=type(layer).__name__,
                allowed=names,
            )
        return check_producer(self.name, layer)

    def _normed(self, norm: nn.Module, y: Tensor) -> Tensor:
        return norm(y)


class ConvIIEU(IIEULayer):
    r"""A convolution, a norm and IIEU-B in one.

    Each response is weighted by the similarity of patch and filter.

    .. math:: \phi = \varsigma(s + \nu)\,\tilde x, \qquad \tilde x = \mathrm{norm}(w_c * p), \qquad
        s = \frac{\tilde x}{(\|w_c\| + \epsilon)(\|p\| + \epsilon)}, \qquad
        \nu = \sigma(\mathrm{LN}(\mathrm{mean}(\tilde x)))

    with :math:`\varsigma(\rho) = \rho` from the threshold :math:`\eta` on, and :math:`\eta e^{\rho
    - \eta}` below it. :math:`p` is the patch of input behind the response, for any kernel, stride,
    padding, dilation and groups. :math:`w_c` is the raw filter, without the norm's scale. Term-B,
    :math:`\nu`, is one number per sample and channel. The submodule ``unit`` is an
    :class:`~gatewise.units.IIEUB` with 3 C parameters, on the device and in the dtype of ``conv``.

    A patch without direction (all zero, as in masked images) has similarity 0. The authors' code
    divides by 1e-8 there, which gives responses of a million. At the start :math:`\nu` is near 1/2,
    so about half of the response passes. Outputs depend on the whole image through the mean, so
    cutting an image into tiles changes them. Convolution, norm and unit need their inputs for the
    backward pass: nothing before them may be changed in place.

    Args:
        conv: a Conv1d, Conv2d or Conv3d, which becomes the submodule ``conv``.
        norm: the module between convolution and unit, usually a batch norm, which becomes the
            submodule ``norm``.
        term_b: over what Term-B normalises: ``"layer"``, ``"group"``, ``"batch"`` or ``"affine"``,
            as in :class:`~gatewise.units.IIEUB`.
        groups: the number of groups for ``term_b="group"``.
        norm_scope: ``"all"`` or ``"group"``, the channels over which a patch is measured.
        eta: the start value of the threshold.
        constrain: ``"none"``, ``"softplus"`` or ``"clamp"``, the constraint of the threshold.
        eps: added to each length.

    Shape: ``(N, C_in, *) -> (N, C_out, *)`` as the convolution, or without ``N``.

    Cai, 2023, "IIEU: Rethinking Neural Feature Activation from Decision-Making", ICCV. Only the
    supplement and the authors' code were available. Corrections: the similarity lies in [-1, 1],
    and only without a norm; the supplement's bound on the gradient of :math:`\nu` (C.5) holds for
    ``term_b="affine"``, not for layer norm.

    >>> layer = ConvIIEU(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
    >>> layer(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    holder = "conv"
    accepted = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    conv: nn.Conv1d | nn.Conv2d | nn.Conv3d

    def __init__(
        self,
        conv: nn.Module,
        norm: nn.Module | None = None,
        *,
        term_b: str = "layer",
        groups: int | None = None,
        norm_scope: str = "all",
        eta: float = 0.05,
        constrain: str = "none",
        eps: float = 1e-8,
    ) -> None:
        super().__init__(
            conv,
            norm,
            term_b=term_b,
            groups=groups,
            norm_scope=norm_scope,
            eta=eta,
            constrain=constrain,
            eps=eps,
        )


class LinearIIEU(IIEULayer):
    r"""A linear layer, a norm and IIEU-B in one: :class:`ConvIIEU` with rows for patches.

    .. math:: \phi = \varsigma(s + \nu)\,\tilde x, \qquad \tilde x = \mathrm{norm}(W x + b), \qquad
        s_c = \frac{\tilde x_c}{(\|w_c\| + \epsilon)(\|x\| + \epsilon)}, \qquad
        \nu = \sigma(\mathrm{LN}(\mathrm{mean}(\tilde x)))

    The mean is over the dimensions between the first and the last, the positions of a sequence. For
    ``(N, C_in)`` it is the response itself. A batch norm is applied to all rows alike. The
    published code has no linear form: this is the convolution with kernel size 1.

    Args:
        linear: a linear layer, which becomes the submodule ``linear``.
        norm: the module between layer and unit, which becomes the submodule ``norm``.
        term_b: over what Term-B normalises: ``"layer"``, ``"group"``, ``"batch"`` or ``"affine"``.
        groups: the number of groups for ``term_b="group"``.
        eta: the start value of the threshold.
        constrain: ``"none"``, ``"softplus"`` or ``"clamp"``, the constraint of the threshold.
        eps: added to each length.

    Shape: ``(N, *, C_in) -> (N, *, C_out)``, or ``(C_in,) -> (C_out,)``.
    """

    holder = "linear"
    accepted = (nn.Linear,)
    linear: nn.Linear

    def __init__(
        self,
        linear: nn.Module,
        norm: nn.Module | None = None,
        *,
        term_b: str = "layer",
        groups: int | None = None,
        eta: float = 0.05,
        constrain: str = "none",
        eps: float = 1e-8,
    ) -> None:
        super().__init__(
            linear,
            norm,
            term_b=term_b,
            groups=groups,
            eta=eta,
            constrain=constrain,
            eps=eps,
        )

    def _normed(self, norm: nn.Module, y: Tensor) -> Tensor:
        # BatchNorm1d takes the channels in dimension 1.
        if isinstance(norm, nn.BatchNorm1d):
            return norm(y.flatten(0, -2)).reshape(y.shape)
        return norm(y)
