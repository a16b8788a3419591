"""Where the outputs of a static phase selective layer divide.

Relaxed while it trains, one number once it is fixed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.layers.phase.phase_layer import PhaseLayer


class Segment(NamedTuple):
    """Outputs that read one phase: all of some neighbouring groups, or a part of one group."""

    positive: bool
    first_row: int
    last_row: int
    first_input: int
    last_input: int
    groups: int


def segments(boundary: int, outputs: int, inputs: int, groups: int) -> Iterator[Segment]:
    """Cut the outputs at ``boundary`` into whole groups of one phase, and the two parts of a group that is cut."""
    rows, columns = outputs // groups, inputs // groups
    below, above = boundary // rows * rows, -(-boundary // rows) * rows
    cuts = (
        (True, 0, below),
        (True, below, boundary),
        (False, boundary, above),
        (False, above, outputs),
    )
    for positive, first, last in cuts:
        if first < last:
            group, group_behind = first // rows, -(-last // rows)
            yield Segment(
                positive, first, last, group * columns, group_behind * columns, group_behind - group
            )


def split_response(
    layer: PhaseLayer, x: Tensor, weight: Tensor, weight_neg: Tensor, boundary: int
) -> Tensor:
    """``[W+ x+ ; W- x-] + b``.

    Outputs below ``boundary`` read rows of ``weight``, the others rows of ``weight_neg``.

    A trained layer and its deployed form both come here with the same numbers in the same places,
    so they give the same bits. As many multiplications as a plain layer.
    """

    def respond(x: Tensor, bias: Tensor | None) -> Tensor:
        parts = [
            _part(layer, x, weight if each.positive else weight_neg, bias, each) for each in cuts
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts, layer.channel_dim)

    cuts = tuple(segments(boundary, layer.outputs, layer.inputs, layer.groups))
    return layer.at_any_size(respond, x, layer.bias)


def _part(
    layer: PhaseLayer, x: Tensor, weight: Tensor, bias: Tensor | None, each: Segment
) -> Tensor:
    seen = x.narrow(layer.channel_dim, each.first_input, each.last_input - each.first_input)
    rows = slice(each.first_row, each.last_row)
    phase = seen.relu() if each.positive else -seen.neg().relu()
    return layer.respond(phase, weight[rows], None if bias is None else bias[rows], each.groups)


def gumbel_like(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Independent standard Gumbel numbers, all finite.

    The uniform ones are kept off 0, and are never 1.
    """
    if generator is not None and generator.device.type != logits.device.type:
        got = f"generator on {generator.device}, layer on {logits.device}"
        raise ArgumentError("the generator must be on the layer's device", got=got)
    uniform = torch.rand(
        logits.shape, device=logits.device, dtype=logits.dtype, generator=generator
    )
    return -torch.log(-torch.log(uniform.clamp_min(torch.finfo(logits.dtype).tiny)))


def relaxed_choice(logits: Tensor, temperature: Tensor, hard: bool) -> Tensor:
    """``softmax(logits / temperature)``.

    If ``hard``, the one-hot of its largest entry with the softmax's gradient.
    """
    lead = logits - logits.detach().amax(
        -1, keepdim=True
    )  # first, so that no quotient overflows upwards
    soft = torch.softmax(lead / temperature.to(logits.dtype), -1)
    # `soft - soft.detach()` is exactly 0, so that the value is exactly one-hot
    return one_hot(logits) + (soft - soft.detach()) if hard else soft


def one_hot(logits: Tensor) -> Tensor:
    """1 at the first largest entry, 0 elsewhere."""
    places = torch.arange(logits.shape[-1], device=logits.device)
    return (places == logits.argmax(-1, keepdim=True)).to(logits.dtype)


def gates(choice: Tensor) -> Tensor:
    r"""How negative each output is.

    :math:`g_i = \sum_{j \le i} s_j`, for the ``M`` outputs of ``M + 1`` positions.

    The paper sums over ``j < i``, with which the first output is positive always, two positions
    mean the same, and "all negative" cannot be had.
    """
    return choice.cumsum(-1)[..., :-1]
