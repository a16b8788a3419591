"""The unit behind a layer in which one filter stands for two that were opposite."""

import torch
from torch import Tensor, nn


class PairedReLU(nn.Module):
    r"""ReLU of the first channels, and CReLU with a bias for each phase of the ``pairs`` channels after them.

    .. math:: [\,s^+,\; (z + b)^+,\; (c - z)^+\,]

    Shape: ``(*, S + P, *) -> (*, S + 2P, *)`` with the channels at ``dim``. ``scale`` and ``order`` are there where the
    layers behind could not take them over: output ``i`` is then ``order[i]`` of the above, times ``scale[i]``.
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
        self.pairs, self.dim = len(bias_pos), dim
        self.bias_pos, self.bias_neg = nn.Parameter(bias_pos), nn.Parameter(bias_neg)
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
