"""What does a model cost, and which share of it is its nonlinearities?"""

import time
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import nn

from gatewise.analysis.costs.profiler import (
    ModuleMeter,
    Saved,
    saved_by_nodes,
    time_nodes,
    train_step,
)
from gatewise.analysis.costs.site_calls import SiteCall, site_calls
from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    SiteGraph,
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
class SiteCost:
    """One call of a unit."""

    name: str
    unit: str
    operations: int  # of the call on the example
    seconds: float  # of its forward pass
    share: float  # of the whole model's
    saved_bytes: (
        int | None
    )  # that it keeps for its backward pass; None where the model could not be run to train


@dataclass(frozen=True)
class Cost:
    """The answer of :func:`cost`, of one pass over the example."""

    inputs: int  # in the example
    parameters: int
    operations: int
    seconds: float  # forward, in eval mode
    train_seconds: float | None  # forward and backward, in train mode; None where nothing trains
    saved_bytes: int | None  # kept by the whole model between the two
    sites: tuple[SiteCost, ...]

    @property
    def throughput(self) -> float:
        """Inputs a second, forward."""
        return self.inputs / self.seconds

    @property
    def site_share(self) -> float:
        """The share of the forward time that units take."""
        return sum(site.share for site in self.sites)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            **asdict(self),
            "sites": [asdict(site) for site in self.sites],
            "throughput": self.throughput,
        }

    def plot(self, axes: Any = None) -> Any:
        """The share of time of every site as bars; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(
                figsize=(max(4.0, 0.35 * len(self.sites)), 3.0), layout="constrained"
            ).subplots()
        names = [site.name for site in self.sites]
        axes.bar(range(len(names)), [100 * site.share for site in self.sites])
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        axes.set(ylabel="% of the forward pass")
        return axes

    def __repr__(self) -> str:
        lines = [
            f"{self.parameters:,} parameters, {self.operations / self.inputs:,.0f} operations an input, "
            f"{self.throughput:,.1f} inputs/s forward, {self.site_share:.1%} of that time in units",
            f"{'site':32} unit         operations       ms  share  MiB for backward",
        ]
        for site in self.sites:
            saved = "-" if site.saved_bytes is None else f"{site.saved_bytes / MIB:.2f}"
            facts = (
                f"{site.operations:10}  {1e3 * site.seconds:7.3f}  {site.share:5.1%}  {saved:>16}"
            )
            lines.append(f"{site.name[:32]:32} {site.unit[:12]:12} {facts}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def cost(model: nn.Module, example: Example, *, repeats: int = 5) -> Cost:
    """Parameters, operations, time and memory of ``model`` on ``example``, and the part of every unit in them.

    Operations: a multiplication and its addition are two, an element of an elementwise operator is one; so activations
    are counted, as the operators they are made of. Seconds are the least of ``repeats`` runs after one to warm up, on
    the processor. Bytes are distinct storages that autograd keeps, without parameters; a tensor that a unit and its
    next layer both keep counts for the unit, and once in the whole. Modules are measured in the model's own run (so in
    the fast form that they take), functional calls in a run of its graph.

    The model, its gradients and its statistics are left as they were.
    """
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise ArgumentError(
            "cost: repeats must be a number of runs", got=repeats, allowed="an integer >= 1"
        )
    graph = find_sites(model, example)
    args, kwargs = split_example(example)
    check_runs(model, args, kwargs)
    measured = _Measured(model, graph, args, kwargs, repeats)
    reading = graph.readings.get("eval") or graph.readings["train"]
    sites = tuple(measured.site(call) for call in site_calls(reading, model))
    return Cost(
        next(tensor.shape[0] if tensor.dim() else 1 for tensor in example_tensors((args, kwargs))),
        parameter_count(model),
        round(sum(node_operations(node) for node in reading.graph)),
        measured.seconds,
        measured.train_seconds,
        measured.saved_bytes,
        sites,
    )


class _Measured:
    """All runs that are needed, made once."""

    def __init__(
        self, model: nn.Module, graph: SiteGraph, args: Any, kwargs: Any, repeats: int
    ) -> None:
        reading = graph.readings.get("eval") or graph.readings["train"]
        modules = dict(model.named_modules())
        paths = {call.scope[0] for call in site_calls(reading, model) if call.scope is not None}
        saved = Saved(model)
        self.meter = ModuleMeter({path: modules[path] for path in paths if path in modules}, saved)
        with untouched(model, buffers=True):
            self.seconds = self._forward(model.eval(), args, kwargs, repeats)
            self.of_modules = dict(self.meter.seconds)  # before runs in train mode are measured too
            self.of_nodes = time_nodes(reading.graph, model, args, kwargs, repeats)
            self.train_seconds: float | None = None
            self.saved_bytes: int | None = None
            self.saved_by_node: dict[str, int] = {}
            if "train" in graph.readings:
                self._train(model.train(), graph, args, kwargs, saved, repeats)

    def _forward(self, model: nn.Module, args: Any, kwargs: Any, repeats: int) -> float:
        taken = []
        for _ in range(repeats + 1):
            with torch.no_grad(), self.meter.running():
                start = time.perf_counter()
                model(*args, **kwargs)
                taken.append(time.perf_counter() - start)
        return min(taken[1:])

    def _train(
        self, model: nn.Module, graph: SiteGraph, args: Any, kwargs: Any, saved: Saved, repeats: int
    ) -> None:
        taken = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            try:
                if not train_step(model, args, kwargs):
                    return
            except (RuntimeError, ValueError):  # such as a batch norm of one value a channel
                return
            taken.append(time.perf_counter() - start)
        self.train_seconds = min(taken[1:])
        with torch.enable_grad(), saved.watching(), self.meter.running():
            model(*args, **kwargs)
        self.saved_bytes = sum(saved.all.values())
        reading = graph.readings["train"]
        by_node = saved_by_nodes(reading.graph, model, args, kwargs)
        for call in site_calls(reading, model):
            kept: dict[int, int] = {}
            for node in call.nodes:
                kept |= by_node.get(node, {})
            self.saved_by_node[call.name] = sum(kept.values())

    def site(self, call: SiteCall) -> SiteCost:
        seconds = sum(self.of_nodes.get(node, 0.0) for node in call.nodes)
        saved = None if self.saved_bytes is None else self.saved_by_node.get(call.name, 0)
        if call.scope is not None and call.scope in self.of_modules:
            seconds = self.of_modules[call.scope]
            saved = None if saved is None else sum(self.meter.storages[call.scope].values())
        operations = round(sum(node_operations(node) for node in call.nodes))
        return SiteCost(call.name, call.unit, operations, seconds, seconds / self.seconds, saved)
