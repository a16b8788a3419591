"""A gate on the heads of an attention layer, and the place for one."""

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_count, check_flag, check_number
from gatewise.errors import ArgumentError
from gatewise.units import Device, DType, allocating, check_input, to_compute_dtype

GATES = ("head", "element")
STARTS = ("random", "open")


class AttentionGate(nn.Module):
    r"""Multiplies what attention returns with a sigmoid gate that is computed from its input.

    .. math:: h = s\,\sigma(W x + b) \odot a

    where :math:`a` holds the outputs of the heads before the output projection, and :math:`x` is
    the input of the attention. With ``gate="head"`` there is one gate for each head, with
    ``"element"`` one for each number. The sigmoid is computed in float32 for half types: in
    bfloat16 it would be exactly 1 from 6.25, without a gradient.

    With ``start="open"`` the weights start at 0. With ``scale=2`` the gate then is exactly 1, so
    the attention computes what it computed without a gate. The factor can be moved into the output
    projection later.

    Args:
        width: the number of input features.
        heads: the number of heads.
        head_width: the number of features of a head; ``width / heads`` by default.
        gate: ``"head"`` or ``"element"``.
        scale: the factor :math:`s`. 1 is the published form, with gates from 0 to 1.
        start: ``"random"``, as for a linear layer, or ``"open"``: all weights 0.
        bias: whether the gate has a bias.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``x (*, width)`` and ``a (*, heads * head_width) -> (*, heads * head_width)``.

    Qiu et al., 2025, "Gated Attention for Large Language Models", arXiv:2505.06708.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
        *,
        gate: str = "head",
        scale: float = 1.0,
        start: str = "random",
        bias: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        self.heads = check_count("AttentionGate", "heads", heads, least=1)
        self.head_width = _head_width("AttentionGate", width, heads, head_width)
        self.gate = check_choice("AttentionGate", "gate", gate, GATES)
        self.scale = check_number("AttentionGate", "scale", scale)
        self.start = check_choice("AttentionGate", "start", start, STARTS)
        bias = check_flag("AttentionGate", "bias", bias)
        outputs = heads if gate == "head" else heads * self.head_width
        with allocating("AttentionGate", device, dtype):
            self.score = nn.Linear(width, outputs, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights, or set them to 0 for ``start="open"``."""
        self.score.reset_parameters()
        if self.start == "open":
            for parameter in self.score.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        score = to_compute_dtype(self.score(check_input("AttentionGate", x)))
        gate = self.scale * torch.sigmoid(score)
        if self.gate == "head":
            heads = to_compute_dtype(attended).unflatten(-1, (self.heads, self.head_width))
            return (heads * gate.unsqueeze(-1)).flatten(-2).to(attended.dtype)
        return (to_compute_dtype(attended) * gate).to(attended.dtype)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, gate={self.gate!r}, scale={self.scale:g}"


class OpenGate(nn.Module):
    """The place of a gate in an attention layer: passes on what attention returns.

    An attention layer of your own that calls ``self.gate(x, attended)`` before its output
    projection, with ``self.gate = OpenGate(width, heads)``, can be gated by
    ``gw.swap(model, "gated_attention", x)``.

    Args:
        width: the number of input features.
        heads: the number of heads.
        head_width: the number of features of a head; ``width / heads`` by default.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        head_width: int | None = None,
    ) -> None:
        super().__init__()
        self.width = check_count("OpenGate", "width", width, least=1)
        self.heads = check_count("OpenGate", "heads", heads, least=1)
        self.head_width = _head_width("OpenGate", width, heads, head_width)

    def forward(self, x: Tensor, attended: Tensor) -> Tensor:
        return attended

    def extra_repr(self) -> str:
        return f"width={self.width}, heads={self.heads}"


def _head_width(layer: str, width: int, heads: int, head_width: int | None) -> int:
    """Return the number of features of a head, after checking all three numbers."""
    check_count(layer, "width", width, least=1)
    if head_width is not None:
        return check_count(layer, "head_width", head_width, least=1)
    if width % heads:
        raise ArgumentError(
            f"{layer}: the number of heads must divide the width", got=f"{heads} heads of {width}"
        )
    return width // heads


def masked_scores(scores: Tensor, *masks: Tensor | None) -> Tensor:
    """Return attention scores with masks, boolean ones (true: not read) or numbers to add."""
    for mask in masks:
        if mask is None:
            continue
        if mask.dtype == torch.bool:
            scores = scores.masked_fill(mask, float("-inf"))
        else:
            scores = scores + mask
    return scores
