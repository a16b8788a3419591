"""The width at which a gated network has no more parameters than a plain one."""

from bisect import bisect_left
from typing import Any

import torch

from gatewise.checks import check_count, check_flag
from gatewise.errors import ArgumentError
from gatewise_papers.deep_gated.layers.gate_choice import inside_gate


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
    r"""Return the largest hidden width of a gated network within a plain network's parameters.

    The plain network is linear, unit, linear, with widths ``in_features``, ``hidden_features`` and
    ``out_features``, and its unit has no parameters. The gated one has :class:`GatedLinear` in
    place of the first two. With :math:`p(h)` the gate's own parameters at width :math:`h`, and
    :math:`b` 1 with biases and 0 without, the result is the largest :math:`h'` with

    .. math:: h'\,(2 d_{in} + d_{out} + 2 b) + p(h') \le h\,(d_{in} + d_{out} + b)

    For :math:`d_{in} = d_{out}` without biases this is the known rule :math:`h' = \lfloor 2h/3
    \rfloor`. For convolutions, count a channel as many times as the kernel has positions.

    Args:
        in_features: the width of the input.
        hidden_features: the hidden width of the plain network.
        out_features: the width of the output; ``in_features`` by default, as in a transformer.
        gate: the gate of :class:`GatedLinear`.
        bias: whether the layers have biases.
        multiple_of: the result is a multiple of this number, rounded down.
        **gate_options: the options of the gate.

    Shazeer, 2020, "GLU Variants Improve Transformer", arXiv:2002.05202, for two thirds.

    >>> matched_width(768, 3072, bias=False)
    2048
    """
    outputs = in_features if out_features is None else out_features
    counts = {
        "in_features": in_features,
        "hidden_features": hidden_features,
        "multiple_of": multiple_of,
        "out_features": outputs,
    }
    for name, value in counts.items():
        check_count("matched_width", name, value, least=1)
    check_flag("matched_width", "bias", bias)
    budget = hidden_features * (in_features + outputs + bias)
    per_unit = 2 * in_features + outputs + 2 * bias

    def is_too_wide(steps: int) -> bool:
        width = steps * multiple_of
        return width * per_unit + _gate_parameters(gate, width, gate_options) > budget

    # The parameters grow with the width, so the largest width is found by bisection.
    steps = bisect_left(range(1, budget // per_unit // multiple_of + 1), True, key=is_too_wide)
    if steps == 0:
        raise ArgumentError(
            "matched_width: no gated network is this small",
            got=f"hidden_features={hidden_features}, multiple_of={multiple_of}",
            fix="a wider plain network, or a smaller multiple_of",
        )
    return steps * multiple_of


def _gate_parameters(gate: str, width: int, options: dict[str, Any]) -> int:
    # Counted on the meta device, which allocates nothing.
    with torch.device("meta"):
        module = inside_gate("matched_width", gate, width, 0, **options)
    return sum(parameter.numel() for parameter in module.parameters())
