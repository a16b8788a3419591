"""How similar the patches and filters of IIEU units are, and whether the range of (27) holds."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import AnalysisResult
from gatewise.analysis.gating import Readings, UnitCall, scope_name, unit_calls
from gatewise.analysis.record import PlottedResult, label_places
from gatewise.batches import Progress, read_batches
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import Node, run_graph, untouched
from gatewise.layers import IIEULayer, scale_and_offset


@dataclass(frozen=True)
class UnitTermS(AnalysisResult):
    """Term-S of one unit over the data.

    Attributes:
        name: The name of the unit's call.
        least: The smallest similarity.
        most: The largest similarity.
        beyond_one: The share of similarities outside [-1, 1], the range of a cosine.
        bounds: The range of (27), at its widest over the data. ``None`` if no layer is known.
        slack: By how much (27) holds at the closest point, relative to |r|. Negative if it does
            not hold.
    """

    name: str
    least: float
    most: float
    beyond_one: float
    bounds: tuple[float, float] | None
    slack: float | None


@dataclass(frozen=True)
class TermSRange(PlottedResult):
    """The result of :func:`term_s_range`, with one entry for each unit."""

    units: tuple[UnitTermS, ...]

    def _figure_size(self) -> tuple[float, float]:
        return max(4.0, 0.4 * len(self.units)), 3.0

    def _draw(self, axes: Any) -> None:
        """Draw the measured range of each unit within that of (27)."""
        for place, unit in enumerate(self.units):
            if unit.bounds is not None:
                axes.plot([place, place], unit.bounds, color="lightgrey", linewidth=6)
            axes.plot([place, place], [unit.least, unit.most], color="tab:blue", linewidth=2)
        label_places(axes, self.units)
        axes.set(ylabel="Term-S", yscale="symlog")

    def __str__(self) -> str:
        lines = [f"{'unit':32}     least      most  beyond 1  range of (27)"]
        for unit in self.units:
            line = f"{unit.name[:32]:32} {unit.least:9.4f} {unit.most:9.4f}  {unit.beyond_one:8.2%}"
            bounds = "-" if unit.bounds is None else "[{:.3g}, {:.3g}]".format(*unit.bounds)
            lines.append(f"{line}  {bounds}")
        return "\n".join(lines)


def term_s_range(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    progress: Progress | None = None,
) -> TermSRange:
    r"""Measure the range of Term-S, :math:`s = \tilde x / (\|w\| \|x\|)`, of every IIEU unit.

    With a batch norm between layer and unit,
    :math:`\tilde x = r \langle w, x\rangle + \beta - r\mu`, the range is

    .. math:: -|r| + \frac{\beta - r \mu}{E} \le s \le |r| + \frac{\beta - r \mu}{E},
        \qquad E = \|w\| \|x\|

    at each position, where the bias of the layer is multiplied by :math:`r` and added. It is
    checked at each position and returned at its widest. It has no bound where :math:`E` is small.
    Cai, 2023 (ICCV), supplement, equation 27. The cosine in its derivation is in [-1, 1], not in
    [0, 1] as printed.

    Args:
        model: A model with IIEU units.
        batches: As in :func:`gatewise.gates`.
        progress: As in :func:`gatewise.gates`.

    Raises:
        NotApplicableError: The model has no IIEU unit.
    """
    readings = Readings("term_s_range", model)
    totals: dict[str, _TermSTotals] = {}
    for batch in read_batches("term_s_range", model, batches, progress):
        reading = readings.of(batch.example).readings["eval"]
        calls = [call for call in unit_calls(reading.graph, model) if call.unit == "iieu_b"]
        if not calls:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_UNIT,
                "term_s_range: the model has no IIEU unit",
                got=type(model).__name__,
            )
        needed: set[Node] = set()
        for call in calls:
            needed.update(call.enter)
        with torch.no_grad(), untouched(model):
            _, values = run_graph(
                reading.graph, model.eval(), batch.args, batch.kwargs, keep=needed
            )
            for call in calls:
                total = totals.setdefault(scope_name(call.scope), _TermSTotals())
                _measure(call, model, values, total)
    return TermSRange(tuple(total.result(name) for name, total in totals.items()))


def _measure(
    call: UnitCall,
    model: nn.Module,
    values: dict[Node, Tensor],
    total: "_TermSTotals",
) -> None:
    """Add the similarities of one call, with the range of (27) if the layer is known."""
    unit: Any = call.module
    parent = model.get_submodule(call.scope[0].rpartition(".")[0])
    response, source = _response_and_source(call)
    x = values[response]
    layer = parent.layer if isinstance(parent, IIEULayer) else next(iter(unit._bound), None)
    options = {} if source is None else {"source": values[source], "conv": layer}
    s = unit.terms(x, **options).similarity
    total.add(s)
    if source is None or not isinstance(parent, IIEULayer):
        return
    arguments = unit.arguments(x, **options)
    shape = [-1 if axis == unit.dim % x.dim() else 1 for axis in range(x.dim())]
    scale, offset = _scale_and_offset(parent, x)
    length = arguments["patch"] * arguments["filter_norm"].reshape(shape)
    # A patch of zeros has no direction; its similarity is defined as 0.
    middle = torch.where(length > 0, offset.reshape(shape) / length, 0.0)
    radius = scale.abs().reshape(shape).expand_as(s)
    total.add_bounds(s, middle.expand_as(s), radius)


def _response_and_source(call: UnitCall) -> tuple[Node, Node | None]:
    """Return the response, and the input of the layer that computed it.

    The latter is the latest tensor before the response with as many rows.
    """
    response = call.response
    if response is None:
        raise ArgumentError("term_s_range: a unit reads no tensor", got=scope_name(call.scope))
    rows = (response.shape or (0,))[0]
    earlier = []
    for node in call.enter:
        has_rows = (node.shape or (None,))[0] == rows
        if node is not response and node.floating and node.op != "buffer" and has_rows:
            earlier.append(node)
    return response, max(earlier, key=lambda node: node.index, default=None)


def _scale_and_offset(parent: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return ``r`` and ``beta - r mu`` of each channel, with the bias of the layer."""
    layer = parent.layer
    bias = torch.zeros(layer.weight.shape[0]) if layer.bias is None else layer.bias.detach()
    if parent.norm is None:
        return torch.ones_like(bias), bias
    scale, offset = scale_and_offset("term_s_range", parent.norm)
    return scale.to(x.dtype), (offset + scale * bias).to(x.dtype)


class _TermSTotals:
    """Running extremes of the similarities of one unit."""

    def __init__(self) -> None:
        self.least = torch.inf
        self.most = -torch.inf
        self.beyond = 0
        self.seen = 0
        self.bounds: tuple[float, float] | None = None
        self.slack: float | None = None

    def add(self, s: Tensor) -> None:
        self.least = min(self.least, float(s.min()))
        self.most = max(self.most, float(s.max()))
        self.beyond += int((s.abs() > 1).sum())
        self.seen += s.numel()

    def add_bounds(self, s: Tensor, middle: Tensor, radius: Tensor) -> None:
        low = float((middle - radius).min())
        high = float((middle + radius).max())
        slack = float(((radius - (s - middle).abs()) / radius.clamp(min=1e-30)).min())
        if self.bounds is not None and self.slack is not None:
            low = min(low, self.bounds[0])
            high = max(high, self.bounds[1])
            slack = min(slack, self.slack)
        self.bounds = low, high
        self.slack = slack

    def result(self, name: str) -> UnitTermS:
        share = self.beyond / self.seen
        return UnitTermS(name, self.least, self.most, share, self.bounds, self.slack)
