"""The unit after a layer in which one filter represents two opposite filters."""

import torch
from torch import Tensor, nn

from gatewise.checks import check_kind
from gatewise.units import LeafModule


class PairedReLU(LeafModule):
    r"""ReLU of the first channels, and CReLU with two biases of the last ``P`` channels.

    .. math:: [\,s^+,\; (z + b)^+,\; (c - z)^+\,]

    Shape: ``(*, S + P, *) -> (*, S + 2P, *)`` with the channels at ``dim``.

    Args:
        bias_pos: The biases :math:`b` of the positive sign, ``(P,)``.
        bias_neg: The biases :math:`c` of the negative sign, ``(P,)``.
        dim: The channel dimension.
        scale: Factors of the outputs, ``(S + 2P,)``, applied last. Only given if the layers after
            the unit could not absorb them.
        order: Output ``i`` is channel ``order[i]`` of the formula. Only given with ``scale``.
    """

    scale: Tensor | None
    order: Tensor | None

    def __init__(
        self,
        bias_pos: Tensor,
        bias_neg: Tensor,
        *,
        dim: int,
        scale: Tensor | None = None,
        order: Tensor | None = None,
    ) -> None:
        super().__init__()
        for name, bias in (("bias_pos", bias_pos), ("bias_neg", bias_neg)):
            check_kind("PairedReLU", name, bias, Tensor)
        self.pairs = bias_pos.numel()
        self.dim = dim
        self.bias_pos = nn.Parameter(bias_pos)
        self.bias_neg = nn.Parameter(bias_neg)
        self.register_buffer("scale", scale)
        self.register_buffer("order", order)

    def forward(self, x: Tensor) -> Tensor:
        dim = self.dim % x.dim()
        singles, both = x.split((x.shape[dim] - self.pairs, self.pairs), dim)
        trailing = (1,) * (x.dim() - dim - 1)
        positive = both + self.bias_pos.view(-1, *trailing)
        negative = self.bias_neg.view(-1, *trailing) - both
        out = torch.cat((singles, positive, negative), dim).relu()
        if self.order is not None:
            out = out.index_select(dim, self.order)
        return out if self.scale is None else out * self.scale.view(-1, *trailing)

    def extra_repr(self) -> str:
        return f"pairs={self.pairs}, dim={self.dim}"
