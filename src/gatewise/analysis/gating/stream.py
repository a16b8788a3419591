"""Run a model over batches by its graph, and pass on the values at its gates while it runs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.gate_calls import GateSite, gate_sites
from gatewise.analysis.model_graphs import check_weights
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import (
    Node,
    SiteGraph,
    WrittenActivation,
    example_tensors,
    find_sites,
    run_graph,
    split_example,
    untouched,
)

Tell = Callable[[GateSite, Tensor], None]


class Readings:
    """The graphs of a model in eval mode, one for each size of inputs.

    Sizes are constants of a graph, so inputs of another size need another graph.

    Args:
        what: the name of the analysis, for messages.
        model: the model.
        units: whether calls of this library's units are sites.
    """

    def __init__(self, what: str, model: nn.Module, *, units: bool = False) -> None:
        if not isinstance(model, nn.Module):
            raise ArgumentError(
                f"{what}: model must be a module",
                got=type(model).__name__,
                allowed="nn.Module",
            )
        check_weights(what, model)
        self.model = model
        self.units = units
        self._graphs: dict[Any, SiteGraph] = {}

    def of(self, inputs: Any) -> SiteGraph:
        """Return the graph of a call with ``inputs``."""
        tensors = example_tensors(split_example(inputs))
        key = tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        if key not in self._graphs:
            self._graphs[key] = find_sites(self.model, inputs, modes=("eval",), units=self.units)
        return self._graphs[key]

    def __iter__(self) -> Iterator[SiteGraph]:
        return iter(self._graphs.values())


class SiteStream:
    """The gates of a model over batches.

    Args:
        what: the name of the analysis, for messages.
        model: the model.
    """

    def __init__(self, what: str, model: nn.Module) -> None:
        self.what = what
        self.model = model
        self.left_out: list[str] = []
        self.readings = Readings(what, model)
        self._sites: dict[int, list[GateSite]] = {}  # by the id of a graph that readings keep

    def responses(self, inputs: Any, tell: Tell) -> None:
        """Pass on the input of every site, in the order of the calls.

        A later call in place may write into the tensor.
        """
        graph = self.readings.of(inputs)
        by_node: dict[Node, list[GateSite]] = defaultdict(list)
        for site in self.sites(graph):
            by_node[site.response].append(site)

        def on_value(node: Node, value: Tensor) -> None:
            for site in by_node[node]:
                self._check_response(site, value)
                tell(site, value)

        self._run(graph, inputs, by_node, on_value)

    def run(
        self,
        inputs: Any,
        tell: Tell,
        tell_output: Tell | None = None,
        tell_response: Tell | None = None,
    ) -> None:
        """Pass on the gates of every site, in the order of the calls.

        Args:
            inputs: the inputs of the model.
            tell: receives each site with its gates.
            tell_output: receives each site with its output, after its gates. A later call in place
                may write into the tensor.
            tell_response: receives each site with its response, before its gates.
        """
        graph = self.readings.of(inputs)
        by_response: dict[Node, list[GateSite]] = defaultdict(list)
        by_output: dict[Node, list[GateSite]] = defaultdict(list)
        for site in self.sites(graph):
            by_response[site.response].append(site)
            if site.rule.needs_output or tell_output is not None:
                by_output[site.output].append(site)
        responses: dict[GateSite, Tensor] = {}  # of sites whose output is not computed yet

        def on_value(node: Node, value: Tensor) -> None:
            for site in by_output.get(node, ()):
                if site.rule.needs_output:
                    tell(site, site.rule.gate(responses.pop(site), value))
                if tell_output is not None:
                    tell_output(site, value)
            for site in by_response.get(node, ()):
                self._check_response(site, value)
                if tell_response is not None:
                    tell_response(site, value)
                if site.rule.needs_output:
                    responses[site] = value.clone()
                else:
                    tell(site, site.rule.gate(value))

        self._run(graph, inputs, {*by_response, *by_output}, on_value)

    def _run(
        self,
        graph: SiteGraph,
        inputs: Any,
        keep: Iterable[Node],
        on_value: Callable[[Node, Tensor], None],
    ) -> None:
        args, kwargs = split_example(inputs)
        reading = graph.readings["eval"]
        with torch.no_grad(), untouched(self.model):
            self.model.eval()
            run_graph(reading.graph, self.model, args, kwargs, keep=keep, tell=on_value)

    def sites(self, graph: SiteGraph) -> list[GateSite]:
        """Return the gates of a graph of the model. A model without gates is an error."""
        if id(graph) in self._sites:
            return self._sites[id(graph)]
        sites, left_out = gate_sites(graph.readings["eval"], self.model)
        for note in graph.notes:
            if not self._is_inside(note, sites):
                left_out.append(note)
        self.left_out = left_out
        if not sites:
            raise NotApplicableError(
                Limitation.NO_GATES,
                f"{self.what}: the model has no unit whose gates are known",
                got="; ".join(self.left_out) or type(self.model).__name__,
            )
        self._sites[id(graph)] = sites
        return sites

    def _is_inside(self, note: str, sites: Iterable[GateSite]) -> bool:
        """Whether a note is about the inside of one of the units, not about the model."""
        if not isinstance(note, WrittenActivation):
            return False
        module = dict(self.model.named_modules(remove_duplicate=False)).get(note.module)
        for site in sites:
            if site.module is not None and any(part is module for part in site.module.modules()):
                return True
        return False

    def _check_response(self, site: GateSite, value: Tensor) -> None:
        # The sum is finite in almost all cases, and quicker than a look at every element.
        if not bool(value.sum().isfinite()) and not bool(value.isfinite().all()):
            raise NotApplicableError(
                Limitation.NOT_FINITE,
                f"{self.what}: a response is NaN or infinite",
                got=f"at {site.name!r}",
            )
