"""How wide a gated network may be to have no more parameters than a plain one."""

from bisect import bisect_left
from typing import Any

import torch

from gatewise.errors import ArgumentError
from gatewise.layers.gated.gate_choice import inside_gate
from gatewise.units import check_count, check_flag


def matched_width(
    in_features: int,
    hidden_features: int,
    out_features: int | None = None,
    *,
    gate: str = "sigmoid",
    bias: bool = True,
    multiple_of: int = 1,
    **gate_options: Any,
) -> int:
    r"""The largest hidden width at which a gated two-layer network has at most the parameters of a plain one.

    The plain network is linear, unit, linear, of widths ``in_features``, ``hidden_features``, ``out_features``, and
    its unit has no parameters. The gated one has :class:`GatedLinear` in place of the first two. With :math:`p(h)` the
    gate's own parameters at width :math:`h`, and :math:`b` 1 with biases and 0 without, this is the largest :math:`h'`
    with

    .. math:: h'\,(2 d_{in} + d_{out} + 2 b) + p(h') \le h\,(d_{in} + d_{out} + b)

    which for :math:`d_{in} = d_{out}` without biases is the known rule :math:`h' = \lfloor 2h/3 \rfloor`. For
    convolutions, count a channel as many times as the kernel has positions.

    Args:
        out_features: ``in_features`` where ``None``, as in a transformer.
        gate: of the :class:`GatedLinear`, with its ``gate_options``.
        multiple_of: the width is a multiple of this, rounded down so that the budget is kept.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202, for two thirds.

    >>> matched_width(768, 3072, bias=False)
    2048
    """
    counts = {
        "in_features": in_features,
        "hidden_features": hidden_features,
        "multiple_of": multiple_of,
    }
    outputs = in_features if out_features is None else out_features
    for name, value in {**counts, "out_features": outputs}.items():
        check_count("matched_width", name, value, least=1)
    check_flag("matched_width", "bias", bias)
    budget = hidden_features * (in_features + outputs + bias)
    each = 2 * in_features + outputs + 2 * bias

    def is_too_wide(steps: int) -> bool:
        width = steps * multiple_of
        return width * each + _gate_parameters(gate, width, gate_options) > budget

    steps = bisect_left(range(1, budget // each // multiple_of + 1), True, key=is_too_wide)
    if steps == 0:
        raise ArgumentError(
            "matched_width: no gated network is this small",
            got=f"hidden_features={hidden_features}, multiple_of={multiple_of}",
            fix="a wider plain network, or a smaller multiple_of",
        )
    return steps * multiple_of


def _gate_parameters(gate: str, width: int, options: dict[str, Any]) -> int:
    with torch.device("meta"):
        made = inside_gate("matched_width", gate, width, 0, **options)
    return sum(p.numel() for p in made.parameters())
