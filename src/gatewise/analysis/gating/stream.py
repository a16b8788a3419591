"""Run a model over batches by its graph of calls, and hand on what is at its gates as it is made."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.gate_calls import GateSite, gate_sites
from gatewise.analysis.model_graphs import check_weights
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import (
    Node,
    SiteGraph,
    example_tensors,
    find_sites,
    run_graph,
    split_example,
    untouched,
)

Progress = Callable[[int, int | None], None]  # batches done, and of how many where that is known
Batch = tuple[Any, Tensor | None]  # what the model is called with, and the labels


def each_batch(what: str, batches: Iterable[Any], progress: Progress | None) -> Iterator[Batch]:
    """The inputs and labels of every batch.

    A tensor, ``(inputs, labels, ...)``, or a dict of keyword arguments.

    No batch at all, or one that is not numbers, is an error.
    """
    if isinstance(batches, Tensor | Mapping):
        batches = [batches]
    if not isinstance(batches, Iterable):
        raise ArgumentError(
            f"{what}: batches must be some to go through",
            got=type(batches).__name__,
            allowed="a loader, a list",
        )
    total: int | None = len(batches) if hasattr(batches, "__len__") else None  # type: ignore[arg-type]
    number = 0
    for number, batch in enumerate(batches, 1):
        inputs, labels = _split(batch)
        _check_inputs(what, inputs, number)
        yield inputs, labels
        if progress is not None:
            progress(number, total)
    if not number:
        raise ArgumentError(
            f"{what}: there is no batch", fix="pass a loader or a list that holds some"
        )


class Readings:
    """A model's graph in eval mode.

    Read anew for inputs of another size: sizes are constants of a graph.
    """

    def __init__(self, what: str, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise ArgumentError(
                f"{what}: model must be a module", got=type(model).__name__, allowed="nn.Module"
            )
        check_weights(what, model)
        self.model = model
        self._found: dict[Any, SiteGraph] = {}

    def of(self, inputs: Any) -> SiteGraph:
        """The graph of a call with ``inputs``."""
        key = tuple(
            (tensor.shape, tensor.dtype) for tensor in example_tensors(split_example(inputs))
        )
        if key not in self._found:
            self._found[key] = find_sites(self.model, inputs, modes=("eval",))
        return self._found[key]

    def __iter__(self) -> Iterator[SiteGraph]:
        return iter(self._found.values())


class SiteStream:
    """A model's gates over batches."""

    def __init__(self, what: str, model: nn.Module) -> None:
        self.what, self.model = what, model
        self.left_out: list[str] = []
        self.readings = Readings(what, model)
        self._sites: dict[int, list[GateSite]] = {}  # by the graph's identity; the readings keep it

    def responses(self, inputs: Any, tell: Callable[[GateSite, Tensor], None]) -> None:
        """Tell what goes into every site, in the order of the calls.

        A later call may write into it.
        """
        graph = self.readings.of(inputs)
        by_node: dict[Node, list[GateSite]] = defaultdict(list)
        for site in self.sites(graph):
            by_node[site.response].append(site)

        def told(node: Node, value: Tensor) -> None:
            for site in by_node[node]:
                self._check_response(site, value)
                tell(site, value)

        self._run(graph, inputs, by_node, told)

    def run(self, inputs: Any, tell: Callable[[GateSite, Tensor], None]) -> None:
        """Tell every site's gates, in the order of the calls."""
        graph = self.readings.of(inputs)
        before, after = defaultdict(list), defaultdict(list)
        for site in self.sites(graph):
            before[site.response].append(site)
            if site.rule.needs_output:
                after[site.output].append(site)
        held: dict[GateSite, Tensor] = {}

        def told(node: Node, value: Tensor) -> None:
            for site in after.get(node, ()):
                tell(site, site.rule.gate(held.pop(site), value))
            for site in before.get(node, ()):
                self._check_response(site, value)
                if site.rule.needs_output:
                    held[site] = value.clone()
                else:
                    tell(site, site.rule.gate(value))

        self._run(graph, inputs, {*before, *after}, told)

    def _run(
        self,
        graph: SiteGraph,
        inputs: Any,
        keep: Iterable[Node],
        told: Callable[[Node, Tensor], None],
    ) -> None:
        args, kwargs = split_example(inputs)
        with torch.no_grad(), untouched(self.model):
            self.model.eval()
            run_graph(graph.readings["eval"].graph, self.model, args, kwargs, keep=keep, tell=told)

    def sites(self, graph: SiteGraph) -> list[GateSite]:
        """The gates of a graph of the model; there must be some."""
        if id(graph) in self._sites:
            return self._sites[id(graph)]
        sites, left_out = gate_sites(graph.readings["eval"], self.model)
        inside = {f" in {site.name.partition('@')[0]}" for site in sites if site.module is not None}
        self.left_out = left_out + [
            note for note in graph.notes if not note.endswith(tuple(inside))
        ]
        if not sites:
            raise NotApplicableError(
                Limitation.NO_GATES,
                f"{self.what}: the model has no unit whose gates are known",
                got="; ".join(self.left_out) or type(self.model).__name__,
            )
        self._sites[id(graph)] = sites
        return sites

    def _check_response(self, site: GateSite, value: Tensor) -> None:
        if not bool(value.sum().isfinite()) and not bool(value.isfinite().all()):
            raise NotApplicableError(
                Limitation.NOT_FINITE,
                f"{self.what}: a response is NaN or infinite",
                got=f"at {site.name!r}",
            )


def _split(batch: Any) -> Batch:
    if isinstance(batch, Mapping):
        return {name: value for name, value in batch.items() if name != "labels"}, batch.get(
            "labels"
        )
    if isinstance(batch, tuple | list) and len(batch) > 0:
        inputs, *others = batch
        return inputs, others[0] if others and isinstance(others[0], Tensor) else None
    return batch, None


def _check_inputs(what: str, inputs: Any, number: int) -> None:
    if not isinstance(inputs, Tensor | Mapping):
        raise ArgumentError(
            f"{what}: batch {number} is not something the model can be called with",
            got=type(inputs).__name__,
            allowed="a tensor, (inputs, labels), or a dict of keyword arguments",
        )
    for tensor in example_tensors(inputs):
        if not tensor.numel():
            raise ArgumentError(
                f"{what}: batch {number} is empty", got=f"shape {tuple(tensor.shape)}"
            )
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise ArgumentError(
                f"{what}: batch {number} holds NaN or infinity", fix="look at the data"
            )
