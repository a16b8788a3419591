"""What a model costs, and which share of it its activation functions take."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from gatewise.analysis.costs.profiler import (
    ModuleProfiler,
    SavedTensors,
    Storages,
    saved_by_nodes,
    time_nodes,
    train_step,
)
from gatewise.analysis.costs.site_calls import SiteCall, site_calls
from gatewise.analysis.record import AnalysisResult, PlottedResult, label_places
from gatewise.checks import check_count, check_flag
from gatewise.graph import (
    Example,
    SiteGraph,
    check_dense,
    check_runs,
    example_tensors,
    find_sites,
    node_operations,
    parameter_count,
    split_example,
    untouched,
)

MIB = 2**20


@dataclass(frozen=True)
class SiteCost(AnalysisResult):
    """The cost of one call of a unit on the example.

    Attributes:
        name: The name of the call.
        unit: The unit.
        operations: The number of operations.
        seconds: The time of its forward pass.
        share: This time as a share of that of the whole model.
        saved_bytes: Bytes that it keeps for the backward pass. ``None`` if the model could not be
            run in train mode.
    """

    name: str
    unit: str
    operations: int
    seconds: float
    share: float
    saved_bytes: int | None


@dataclass(frozen=True)
class Cost(PlottedResult):
    """The result of :func:`cost`, for one pass over the example.

    Attributes:
        inputs: The number of inputs in the example.
        parameters: The number of parameters.
        operations: The number of operations.
        seconds: The time of a forward pass in eval mode.
        train_seconds: The time of forward and backward in train mode. ``None`` if nothing trains
            or it was not asked for.
        saved_bytes: Bytes that the whole model keeps between the two.
        sites: The cost of each call of a unit.
    """

    inputs: int
    parameters: int
    operations: int
    seconds: float
    train_seconds: float | None
    saved_bytes: int | None
    sites: tuple[SiteCost, ...]

    _properties = ("throughput",)

    @property
    def throughput(self) -> float:
        """Inputs per second in a forward pass."""
        return self.inputs / self.seconds

    @property
    def site_share(self) -> float:
        """The share of the forward time that units take."""
        return sum(site.share for site in self.sites)

    def _figure_size(self) -> tuple[float, float]:
        return max(4.0, 0.35 * len(self.sites)), 3.0

    def _draw(self, axes: Any) -> None:
        """Draw the share of time of each site."""
        axes.bar(range(len(self.sites)), [100 * site.share for site in self.sites])
        label_places(axes, self.sites)
        axes.set(ylabel="% of the forward pass")

    def __str__(self) -> str:
        operations = f"{self.operations / self.inputs:,.0f} operations per input"
        lines = [
            f"{self.parameters:,} parameters, {operations}, {self.throughput:,.1f} inputs/s "
            f"forward, {self.site_share:.1%} of that time in units",
            f"{'site':32} unit         operations       ms  share  MiB for backward",
        ]
        for site in self.sites:
            saved = "-" if site.saved_bytes is None else f"{site.saved_bytes / MIB:.2f}"
            line = f"{site.name[:32]:32} {site.unit[:12]:12} {site.operations:10}"
            lines.append(f"{line}  {1e3 * site.seconds:7.3f}  {site.share:5.1%}  {saved:>16}")
        return "\n".join(lines)


def cost(model: nn.Module, example: Example, *, repeats: int = 5, training: bool = True) -> Cost:
    """Measure parameters, operations, time and memory of a model, and the share of every unit.

    A multiplication and its addition count as two operations. An element of an elementwise
    operator counts as one, so activations are counted by their operators. Times are the least of
    several runs on the CPU, after one to warm up. Bytes are distinct storages that autograd keeps,
    without parameters. A tensor that a unit and the next layer both keep counts for the unit, and
    once in the whole. Modules are measured in the model's own run, with any fast implementation
    that they use, and functional calls in a run of the graph.

    The model, its gradients and its statistics are left unchanged.

    Args:
        model: Any module.
        example: What the model is called with: a tensor, a tuple of arguments, or a dict of
            keyword arguments.
        repeats: The number of timed runs.
        training: Whether forward and backward are timed too, which needs memory for all gradients.
    """
    check_count("cost", "repeats", repeats)
    check_flag("cost", "training", training)
    check_dense("cost: example", example)
    graph = find_sites(model, example)
    args, kwargs = split_example(example)
    check_runs(model, args, kwargs)
    measured = _Measurement(model, graph, args, kwargs, repeats, training)
    first = next(example_tensors((args, kwargs)))
    operations = sum(map(node_operations, measured.reading.graph))
    return Cost(
        inputs=first.shape[0] if first.dim() else 1,
        parameters=parameter_count(model),
        operations=round(operations),
        seconds=measured.seconds,
        train_seconds=measured.train_seconds,
        saved_bytes=measured.saved_bytes,
        sites=tuple(measured.site_cost(call) for call in measured.calls),
    )


class _Measurement:
    """All runs of the model that the cost needs, each done once."""

    def __init__(
        self,
        model: nn.Module,
        graph: SiteGraph,
        args: Any,
        kwargs: Any,
        repeats: int,
        training: bool,
    ) -> None:
        self.model = model
        self.args = args
        self.kwargs = kwargs
        self.repeats = repeats
        self.reading = graph.readings.get("eval") or graph.readings["train"]
        self.calls = site_calls(self.reading, model)
        self.train_seconds: float | None = None
        self.saved_bytes: int | None = None
        self.saved_by_call: dict[str, int] = {}
        self.saved = SavedTensors(model)
        self.profiler = ModuleProfiler(self._unit_modules(), self.saved)
        with untouched(model, buffers=True):
            self.seconds = self._forward()
            # Copied now, before runs in train mode are measured too.
            self.module_seconds = dict(self.profiler.seconds)
            self.node_seconds = time_nodes(self.reading.graph, model, args, kwargs, repeats)
            if "train" in graph.readings:
                self._train(graph, training)

    def site_cost(self, call: SiteCall) -> SiteCost:
        seconds = sum(self.node_seconds.get(node, 0.0) for node in call.nodes)
        saved = None if self.saved_bytes is None else self.saved_by_call.get(call.name, 0)
        # A module may be faster than its operators one by one.
        if call.scope is not None and call.scope in self.module_seconds:
            seconds = self.module_seconds[call.scope]
            if saved is not None:
                saved = sum(self.profiler.storages[call.scope].values())
        operations = round(sum(map(node_operations, call.nodes)))
        share = seconds / self.seconds
        return SiteCost(call.name, call.unit, operations, seconds, share, saved)

    def _unit_modules(self) -> dict[str, nn.Module]:
        modules = dict(self.model.named_modules())
        paths = {call.scope[0] for call in self.calls if call.scope is not None}
        return {path: modules[path] for path in paths if path in modules}

    def _forward(self) -> float:
        self.model.eval()
        seconds = []
        for _ in range(self.repeats + 1):
            with torch.no_grad(), self.profiler.running():
                start = time.perf_counter()
                self.model(*self.args, **self.kwargs)
                seconds.append(time.perf_counter() - start)
        return min(seconds[1:])  # the first run warms up

    def _train(self, graph: SiteGraph, timed: bool) -> None:
        self.model.train()
        try:
            if timed:
                self.train_seconds = self._train_seconds()
                if self.train_seconds is None:
                    return
            with torch.enable_grad(), self.saved.watching(), self.profiler.running():
                self.model(*self.args, **self.kwargs)
        except (RuntimeError, ValueError):  # e.g. a batch norm with one value per channel
            return
        self.saved_bytes = sum(self.saved.all.values())
        reading = graph.readings["train"]
        by_node = saved_by_nodes(reading.graph, self.model, self.args, self.kwargs)
        for call in site_calls(reading, self.model):
            storages: Storages = {}
            for node in call.nodes:
                storages |= by_node.get(node, {})
            self.saved_by_call[call.name] = sum(storages.values())

    def _train_seconds(self) -> float | None:
        """Return the time of forward and backward; ``None`` if nothing trains."""
        seconds = []
        for _ in range(self.repeats + 1):
            start = time.perf_counter()
            if not train_step(self.model, self.args, self.kwargs):
                return None
            seconds.append(time.perf_counter() - start)
        return min(seconds)
