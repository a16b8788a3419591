"""ConvIIEU and LinearIIEU: a layer, a norm and IIEU-B in one, called like the layer alone."""

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
    Producer,
    Terms,
    check_input,
    check_producer,
    check_source,
    replace_infinities,
)

Self = TypeVar("Self", bound="IIEULayer")


class IIEULayer(nn.Module):
    """What both layers share. Not for use: see :class:`ConvIIEU` and :class:`LinearIIEU`."""

    holder: ClassVar[
        str
    ]  # the attribute that holds the given layer, so the first part of its state_dict names
    takes: ClassVar[tuple[type[nn.Module], ...]]
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
        made_by = self._check_layer(layer)
        self.add_module(self.holder, made_by)
        self.norm = check_norm(self.name, made_by, norm)
        self.unit = IIEUB(
            channels=made_by.weight.shape[0],
            term_b=term_b,
            groups=groups,
            norm_scope=norm_scope,
            eta=eta,
            constrain=constrain,
            eps=eps,
            dim=self.channel_dim,
            device=made_by.weight.device,
            dtype=made_by.weight.dtype,
        )

    @property
    def name(self) -> str:
        """What errors call this layer."""
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
        """Draw the layer's weights anew, and set norm and unit to their starts."""
        for part in self.children():
            if callable(reset := getattr(part, "reset_parameters", None)):
                reset()

    def response(self, x: Tensor) -> Tensor:
        """What the unit weights.

        The layer's response to a batch ``x``, after the norm if there is one.
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
        """The layer's response, finite for any finite ``x``.

        Far out it is held to what a norm can square and add.
        """
        own = self.layer.bias

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            if bias is None or bias is own:
                return self.layer(x)
            return functional_call(self.layer, {"bias": bias}, (x,))

        dims = x.dim() - 1 if self.channel_dim == 1 else 1
        y = at_any_size(
            respond, x, own, dims=dims, limit=None if self.norm is None else far_from(x.dtype)
        )
        return replace_infinities(y) if y.dtype == torch.float16 else y

    def terms(self, x: Tensor) -> Terms:
        """Term-S (similarity), Term-B (shift), threshold and weight of every response to a batch ``x``."""
        return self.unit.terms(self.response(x), x, conv=self.layer)

    def fold(self: Self) -> Self:
        """A copy for inference with the batch norm folded into the layer, equal to this one in evaluation mode.

        Folding rescales the filters, and the similarity is defined by their lengths before that: these are kept in
        the buffer ``unit.filter_norm``. The copy's filters should not be trained, for the buffer would not follow.
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
        with torch.no_grad():
            scale, offset = scale_and_offset(self.name, norm)
            weight, bias = layer.weight.double(), 0.0 if layer.bias is None else layer.bias.double()
            shaped = scale.reshape(-1, *[1] * (weight.dim() - 1))
            layer.weight = nn.Parameter((weight * shaped).to(layer.weight.dtype))
            layer.bias = nn.Parameter((bias * scale + offset).to(layer.weight.dtype))
        folded.norm = None
        return folded

    def no_weight_decay(self) -> set[str]:
        """Names of the unit's parameters, which weight decay should spare."""
        return {f"unit.{name}" for name in self.unit.no_weight_decay()}

    def forward(self, x: Tensor) -> Tensor:
        if check_input(self.name, x).dim() == self.layer.weight.dim() - 1:
            return self(x[None])[0]
        return self.unit(self.response(x), x, conv=self.layer).to(x.dtype)

    def _check_layer(self, layer: nn.Module) -> Producer:
        if not isinstance(layer, self.takes):
            names = " or ".join(kind.__name__ for kind in self.takes)
            raise ArgumentError(
                f"{self.name}: wrong kind of layer", got=type(layer).__name__, allowed=names
            )
        return check_producer(self.name, layer)

    def _normed(self, norm: nn.Module, y: Tensor) -> Tensor:
        return norm(y)


class ConvIIEU(IIEULayer):
    r"""A convolution, a norm and IIEU-B in one.

    Each response is weighted by how similar patch and filter are.

    .. math:: \phi = \varsigma(s + \nu)\,\tilde x, \qquad \tilde x = \mathrm{norm}(w_c * p), \qquad
        s = \frac{\tilde x}{(\|w_c\| + \epsilon)(\|p\| + \epsilon)}, \qquad
        \nu = \sigma(\mathrm{LN}(\mathrm{mean}(\tilde x)))

    with :math:`\varsigma(\rho) = \rho` from the threshold :math:`\eta` on and :math:`\eta e^{\rho -
    \eta}` below it. :math:`p` is the patch of input behind the response, for any kernel, stride,
    padding, dilation and groups; :math:`w_c` the raw filter, without the norm's scale. Term-B,
    :math:`\nu`, is one number per sample and channel.

    Args: conv: a Conv1d, Conv2d or Conv3d; it becomes the submodule ``conv``. norm: what stands
        between convolution and unit, a batch norm usually; it becomes the submodule ``norm``.
        term_b, groups, norm_scope, eta, constrain, eps: as in :class:`~gatewise.units.IIEUB`, which
        is the submodule
            ``unit`` with 3 C parameters, made on the device and in the dtype of the convolution.

    Shape: ``(N, C_in, *) -> (N, C_out, *)`` as the convolution, or without ``N``.

    A patch without direction (all zero, as in masked images) has similarity 0; dividing by 1e-8
    there, as the authors' code does, gives responses of a million. At the start :math:`\nu` is near
    1/2, so about half the response passes. Outputs depend on the whole image through the mean:
    tiling an image changes them. Convolution, norm and unit need their inputs for the backward
    pass: nothing before them may be changed in place.

    Cai, 2023, "IIEU: Rethinking Neural Feature Activation from Decision-Making", ICCV. Of the paper
    only the supplement and the authors' code were at hand. Corrections: the similarity lies in [-1,
    1], and only without a norm; the supplement's bound on the gradient of :math:`\nu` (C.5) holds
    for ``term_b="affine"``, not for layer norm.

    >>> layer = ConvIIEU(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8))
    >>> layer(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    """

    holder = "conv"
    takes = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
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

    Shape: ``(N, *, C_in) -> (N, *, C_out)``, or ``(C_in,) -> (C_out,)``. The mean is over the
    dimensions between the first and the last, the positions of a sequence; for ``(N, C_in)`` it is
    the response itself. The published code has no linear form: this is the convolution of kernel 1.
    A batch norm is applied to all rows alike. Arguments as for :class:`ConvIIEU`; the given layer
    becomes the submodule ``linear``.
    """

    holder = "linear"
    takes = (nn.Linear,)
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
            linear, norm, term_b=term_b, groups=groups, eta=eta, constrain=constrain, eps=eps
        )

    def _normed(self, norm: nn.Module, y: Tensor) -> Tensor:
        if isinstance(norm, nn.BatchNorm1d):
            return norm(y.flatten(0, -2)).reshape(y.shape)
        return norm(y)
