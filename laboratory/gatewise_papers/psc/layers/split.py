"""The boundary between the outputs of a static phase selective layer: relaxed, or one number."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.layers import PhaseLayer


class Segment(NamedTuple):
    """Outputs that read one phase: all of some neighbouring groups, or a part of one group."""

    positive: bool
    first_row: int
    last_row: int
    first_input: int
    last_input: int
    groups: int


def segments(
    boundary: int,
    outputs: int,
    inputs: int,
    groups: int,
) -> Iterator[Segment]:
    """Cut the outputs at ``boundary`` into whole groups of one phase and parts of a cut group."""
    rows = outputs // groups
    columns = inputs // groups
    below = boundary // rows * rows
    above = -(-boundary // rows) * rows
    # Whole positive groups, the two parts of a cut group, and whole negative groups.
    cuts = (
        (True, 0, below),
        (True, below, boundary),
        (False, boundary, above),
        (False, above, outputs),
    )
    for positive, first, last in cuts:
        if first < last:
            group = first // rows
            end = -(-last // rows)
            yield Segment(positive, first, last, group * columns, end * columns, end - group)


def split_response(
    layer: PhaseLayer,
    x: Tensor,
    weight: Tensor,
    weight_neg: Tensor,
    boundary: int,
) -> Tensor:
    """Return ``[W+ x+ ; W- x-] + b``.

    Outputs below ``boundary`` read rows of ``weight``, the others rows of ``weight_neg``. A trained
    layer and its deployed form call this with the same numbers in the same places, so they give the
    same bits. It takes as many multiplications as a plain layer.
    """

    def respond(x: Tensor, bias: Tensor | None) -> Tensor:
        parts = []
        for segment in cuts:
            rows = weight if segment.positive else weight_neg
            parts.append(_segment_response(layer, x, rows, bias, segment))
        if len(parts) == 1:
            return parts[0]
        return torch.cat(parts, layer.channel_dim)

    cuts = tuple(segments(boundary, layer.outputs, layer.inputs, layer.groups))
    return layer.at_any_size(respond, x, layer.bias)


def _segment_response(
    layer: PhaseLayer,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    segment: Segment,
) -> Tensor:
    inputs = segment.last_input - segment.first_input
    part = x
    if inputs < x.shape[layer.channel_dim]:  # the gradient of a part has no memory format
        part = x.narrow(layer.channel_dim, segment.first_input, inputs)
    rows = slice(segment.first_row, segment.last_row)
    phase = part.relu() if segment.positive else -part.neg().relu()
    return layer.respond(phase, weight[rows], None if bias is None else bias[rows], segment.groups)


def gumbel_like(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return independent standard Gumbel numbers, all finite.

    The uniform numbers are bounded away from 0, and are never 1.
    """
    if generator is not None and generator.device.type != logits.device.type:
        got = f"generator on {generator.device}, layer on {logits.device}"
        raise ArgumentError("the generator must be on the layer's device", got=got)
    uniform = torch.rand(
        logits.shape,
        device=logits.device,
        dtype=logits.dtype,
        generator=generator,
    )
    return -torch.log(-torch.log(uniform.clamp_min(torch.finfo(logits.dtype).tiny)))


def relaxed_choice(logits: Tensor, temperature: Tensor, hard: bool) -> Tensor:
    """Return ``softmax(logits / temperature)``.

    If ``hard``, return the one-hot of its largest entry with the gradient of the softmax.
    """
    # The largest is subtracted first, so that no quotient overflows upwards.
    lead = logits - logits.detach().amax(-1, keepdim=True)
    soft = torch.softmax(lead / temperature.to(logits.dtype), -1)
    # `soft - soft.detach()` is exactly 0, so the value is exactly one-hot.
    if hard:
        return one_hot(logits) + (soft - soft.detach())
    return soft


def one_hot(logits: Tensor) -> Tensor:
    """Return 1 at the first largest entry, 0 elsewhere."""
    places = torch.arange(logits.shape[-1], device=logits.device)
    return (places == logits.argmax(-1, keepdim=True)).to(logits.dtype)


def gates(choice: Tensor) -> Tensor:
    r"""Return how negative each output is.

    :math:`g_i = \sum_{j \le i} s_j`, for the ``M`` outputs of ``M + 1`` positions. The paper sums
    over ``j < i``, with which the first output is always positive, two positions mean the same, and
    "all negative" cannot be expressed.
    """
    return choice.cumsum(-1)[..., :-1]
