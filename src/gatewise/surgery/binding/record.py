"""Record the calls of layers, activations and additions that bound units need."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Node, SiteGraph, untouched
from gatewise.surgery.binding.additions import match_additions
from gatewise.surgery.binding.bind import pair_calls, why_not
from gatewise.surgery.binding.bindings import Binding
from gatewise.surgery.binding.branches import Branch
from gatewise.surgery.binding.through_method import through_method
from gatewise.surgery.calls import AROUND, CallSite, match_calls, record_run
from gatewise.surgery.reasons import Reason, Refusal

DISAGREE = "what ran and what was read do not agree on the calls"


@dataclass
class Recorded:
    """The recorded call of each site, and all calls of the run it was recorded in.

    Sites include additions. ``runs`` has the calls by the name of a site.
    """

    model: nn.Module
    sites: dict[str, CallSite] = field(default_factory=dict)
    runs: dict[str, Sequence[CallSite]] = field(default_factory=dict)

    def bind(self, site: str, branch: Branch) -> Binding:
        """The binding of a unit in place of the site's own call, or a :class:`Refusal`."""
        activation = self.sites.get(site)
        if activation is None:
            raise Refusal(Reason.SOURCE, DISAGREE)
        if activation.aliased:
            raise Refusal(
                Reason.SOURCE,
                "the call writes into a tensor that is read under another name afterwards",
            )
        source = self._call(site, branch.layer)
        try:
            pair = pair_calls(self.runs[site], source.module or "", activation)
        except ArgumentError as problem:
            raise Refusal(Reason.SOURCE, str(problem)) from None
        if pair.producer != source:
            raise Refusal(Reason.SOURCE, "the layer is called again before the activation")
        return self._checked(Binding(branch.layer.scope[0], source, pair.call, pair.silenced))

    def bind_end(self, site: str, branch: Branch) -> Binding:
        """The binding of a unit around the last call of a branch, or a :class:`Refusal`."""
        source = self._call(site, branch.layer)
        end = source if branch.end is branch.layer else self._call(site, branch.end)
        return self._checked(Binding(branch.layer.scope[0], source, replace(end, form=AROUND)))

    def _checked(self, binding: Binding) -> Binding:
        source = through_method(self.model, binding.source, binding.call)
        if why := why_not(source, binding.call):
            raise Refusal(Reason.SOURCE, why)
        return replace(binding, source=source)

    def _call(self, site: str, node: Node) -> CallSite:
        """The call of the module that ``node`` is in."""
        path, number = node.scope
        calls = [call for call in self.runs.get(site, ()) if call.module == path]
        if number >= len(calls):
            raise Refusal(Reason.SOURCE, DISAGREE)
        return calls[number]


def record_bound(
    model: nn.Module,
    graph: SiteGraph,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    also: Collection[str],
) -> Recorded:
    """Run the model once for each mode that has sites of its own, and match the calls.

    Args:
        model: the model.
        graph: its graph.
        args: positional arguments of the run.
        kwargs: keyword arguments of the run.
        also: paths of modules whose calls are recorded too.
    """
    recorded = Recorded(model)
    for mode, reading in graph.readings.items():
        if recorded.runs and all(name in recorded.runs for name in reading.site_nodes):
            continue
        with untouched(model, buffers=True):
            model.train(mode == "train")
            calls, sums, _ = record_run(model, args, kwargs, also=also)
        activations = match_calls(reading, [call for call in calls if call.module not in also])
        sites = activations | match_additions(reading, sums)
        recorded.sites = sites | recorded.sites
        recorded.runs = dict.fromkeys((*reading.site_nodes, *sites), calls) | recorded.runs
    return recorded
