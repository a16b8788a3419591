"""How similar are the patches and filters of a model's IIEU units, and does the range of equation 27 hold?"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.gate_calls import UnitCall, scope_name, unit_calls
from gatewise.analysis.gating.stream import Progress, Readings, each_batch
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import Node, run_graph, split_example, untouched
from gatewise.layers import IIEULayer, scale_and_offset


@dataclass(frozen=True)
class UnitTermS:
    """Term-S of one unit over the data."""

    name: str
    least: float
    most: float
    beyond_one: float  # share of similarities outside [-1, 1], where a cosine would be
    bounds: (
        tuple[float, float] | None
    )  # the range of (27), at its widest over the data; None where no layer is known
    slack: (
        float | None
    )  # by how much (27) holds at the nearest point, relative to |r|; negative would break it


@dataclass(frozen=True)
class TermSRange:
    """The answer of :func:`term_s_range`, one entry a unit."""

    units: tuple[UnitTermS, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {"units": [asdict(each) for each in self.units]}

    def plot(self, axes: Any = None) -> Any:
        """The measured range of every unit within that of (27); returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(
                figsize=(max(4.0, 0.4 * len(self.units)), 3.0), layout="constrained"
            ).subplots()
        for place, each in enumerate(self.units):
            if each.bounds is not None:
                axes.plot([place, place], each.bounds, color="lightgrey", linewidth=6)
            axes.plot([place, place], [each.least, each.most], color="tab:blue", linewidth=2)
        axes.set_xticks(
            range(len(self.units)), [each.name for each in self.units], rotation=90, fontsize=6
        )
        axes.set(ylabel="Term-S", yscale="symlog")
        return axes

    def __repr__(self) -> str:
        lines = [f"{'unit':32}     least      most  beyond 1  range of (27)"]
        for each in self.units:
            bounds = "-" if each.bounds is None else f"[{each.bounds[0]:.3g}, {each.bounds[1]:.3g}]"
            lines.append(
                f"{each.name[:32]:32} {each.least:9.4f} {each.most:9.4f}  {each.beyond_one:8.2%}  {bounds}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def term_s_range(
    model: nn.Module, batches: Iterable[Any], *, progress: Progress | None = None
) -> TermSRange:
    r"""The range of Term-S, :math:`s = \tilde x / (\|w\| \|x\|)`, of every IIEU unit of ``model`` over ``batches``.

    With a batch norm between layer and unit, :math:`\tilde x = r \langle w, x\rangle + \beta - r\mu`, the range is

    .. math:: -|r| + \frac{\beta - r \mu}{E} \le s \le |r| + \frac{\beta - r \mu}{E}, \qquad E = \|w\| \|x\|

    at each place; the layer's own bias counts in with :math:`r`. It is checked place by place, and given at its widest.
    Note that it has no bound where :math:`E` is small. Cai, 2023 (ICCV), supplement, equation 27; the cosine in its
    derivation lies in [-1, 1], not in [0, 1] as printed.
    """
    readings = Readings("term_s_range", model)
    totals: dict[str, _Total] = {}
    for inputs, _ in each_batch("term_s_range", batches, progress):
        reading = readings.of(inputs).readings["eval"]
        calls = [call for call in unit_calls(reading.graph, model) if call.unit == "iieu_b"]
        if not calls:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_UNIT,
                "term_s_range: the model has no IIEU unit",
                got=type(model).__name__,
            )
        args, kwargs = split_example(inputs)
        wanted = {node for call in calls for node in call.enter}
        with torch.no_grad(), untouched(model):
            _, values = run_graph(reading.graph, model.eval(), args, kwargs, keep=wanted)
            for call in calls:
                _measure(call, model, values, totals.setdefault(scope_name(call.scope), _Total()))
    return TermSRange(tuple(total.result(name) for name, total in totals.items()))


def _measure(call: UnitCall, model: nn.Module, values: dict[Node, Tensor], total: "_Total") -> None:
    unit: Any = call.module
    parent = model.get_submodule(call.scope[0].rpartition(".")[0])
    response, source = _entering(call)
    x, patches = values[response], None if source is None else values[source]
    layer = parent.layer if isinstance(parent, IIEULayer) else next(iter(unit._bound), None)
    made_by = {} if patches is None else {"source": patches, "conv": layer}
    s = unit.terms(x, **made_by).similarity
    if patches is None or not isinstance(parent, IIEULayer):
        total.add(s, None, None)
        return
    given = unit.arguments(x, **made_by)
    shape = [-1 if axis == unit.dim % x.dim() else 1 for axis in range(x.dim())]
    scale, offset = _affine(parent, x)
    length = given["patch"] * given["filter_norm"].reshape(shape)
    middle = torch.where(length > 0, offset.reshape(shape) / length, 0.0)
    total.add(s, scale.abs().reshape(shape).expand_as(s), middle.expand_as(s))


def _entering(call: UnitCall) -> tuple[Node, Node | None]:
    """The response and, the latest batch before it, the input of the layer that made it."""
    response = call.response
    if response is None:
        raise ArgumentError("term_s_range: a unit reads no tensor", got=scope_name(call.scope))
    rows = (response.shape or (0,))[0]
    earlier = [
        node
        for node in call.enter
        if node is not response and node.floating and node.op != "buffer"
    ]
    batches = [node for node in earlier if (node.shape or (None,))[0] == rows]
    return response, max(batches, key=lambda node: node.index, default=None)


def _affine(parent: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """``r`` and ``beta - r mu`` of each channel, the layer's bias counted in."""
    layer = parent.layer
    bias = torch.zeros(layer.weight.shape[0]) if layer.bias is None else layer.bias.detach()
    if parent.norm is None:
        return torch.ones_like(bias), bias
    scale, offset = scale_and_offset("term_s_range", parent.norm)
    return scale.to(x.dtype), (offset + scale * bias).to(x.dtype)


class _Total:
    def __init__(self) -> None:
        self.least, self.most, self.beyond, self.seen = torch.inf, -torch.inf, 0, 0
        self.bounds: tuple[float, float] | None = None
        self.slack: float | None = None

    def add(self, s: Tensor, reach: Tensor | None, middle: Tensor | None) -> None:
        self.least, self.most = min(self.least, float(s.min())), max(self.most, float(s.max()))
        self.beyond, self.seen = self.beyond + int((s.abs() > 1).sum()), self.seen + s.numel()
        if reach is None or middle is None:
            return
        low, high = float((middle - reach).min()), float((middle + reach).max())
        old = self.bounds or (low, high)
        self.bounds = min(old[0], low), max(old[1], high)
        nearest = float(((reach - (s - middle).abs()) / reach.clamp(min=1e-30)).min())
        self.slack = nearest if self.slack is None else min(self.slack, nearest)

    def result(self, name: str) -> UnitTermS:
        return UnitTermS(
            name, self.least, self.most, self.beyond / self.seen, self.bounds, self.slack
        )
