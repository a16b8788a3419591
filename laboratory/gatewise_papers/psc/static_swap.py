"""Static phase selective layers in place of an activation and the layers that read it.

Note [Static swaps]. The layers that read the activation become static phase selective layers: some
of their outputs read the positive part of the inputs, as behind a ReLU, and the others the negative
part. Both phases start with the layer's own weight. So the function changes, also in the first
step, and a learned split draws noise in training. There is no form that preserves the function.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import CONVOLUTIONS, Reading, Replace, Site
from gatewise.surgery import Entry, Reason, Request
from gatewise.surgery.planning import Assigned, Draft, PlanningContext
from gatewise.surgery.propagate import Deferral
from gatewise.surgery.reasons import Refusal
from gatewise.surgery.swaps import PhaseSelectiveSwap, defer_with_readers
from gatewise_papers.psc.layers import StaticPSConv1d, StaticPSConv2d, StaticPSLinear

LEARNED = "learned"
STATIC: dict[type[nn.Module], Any] = {
    nn.Conv1d: StaticPSConv1d,
    nn.Conv2d: StaticPSConv2d,
    nn.Linear: StaticPSLinear,
}


class StaticPhaseSelectiveSwap(PhaseSelectiveSwap):
    """``static_psc``: every output of the next layers reads one phase; see Note [Static swaps].

    Option: ``split``, ``"learned"`` by default, or the share of outputs that read positive inputs.
    """

    names = ("static_psc",)
    defaults: ClassVar = {"split": LEARNED}
    order = 2  # after psc, whose layers it leaves alone

    def check(self, request: Request) -> Request:
        """Its one option is ``split``."""
        request = super(PhaseSelectiveSwap, self).check(request)
        split = request.options["split"]
        number = isinstance(split, int | float) and not isinstance(split, bool)
        if split != LEARNED and not (number and 0 <= split <= 1):
            raise ArgumentError(
                "static_psc: option split is not allowed",
                got=split,
                allowed="'learned', or the share of outputs that read positive inputs, 0 to 1",
            )
        return request

    def check_site(self, context: PlanningContext, site: Site, request: Request) -> None:
        """Refuse to preserve the function."""
        super().check_site(context, site, request)
        if request.preserve:
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by static_psc")

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Follow the activations to the layers that can apply them."""
        able = self.able_sites(context, assigned, draft)
        requests = {repr(request.options["split"]) for _, request in able.values()}
        if len(requests) > 1:
            raise ArgumentError(
                "static_psc: one plan has one split", got=", ".join(sorted(requests))
            )
        kept, taken, _ = defer_with_readers(
            context.graph, list(able), context.modules, {}, draft.refused, set(draft.maps)
        )
        if claimed := sorted(set(taken.layers) & set(draft.layers)):
            raise ArgumentError(
                "static_psc: a layer reads sites of psc and of static_psc",
                got=", ".join(claimed),
                fix="choose other sites with where=",
            )
        for name in kept:
            site, request = able[name]
            split = request.options["split"]
            draft.put(site, request.unit, {"split": split})
            for path in taken.layers:
                draft.replaced[path] = {"swap": request.unit, "split": split}
        for path, slopes in taken.layers.items():
            if draft.replaced.get(path, {}).get("split") == LEARNED:
                draft.layers[path] = (1.0,) * len(slopes)
                # one score for each boundary
                draft.parameters += len(context.model.get_parameter(f"{path}.weight")) + 1

    def replace_layer(self, layer: nn.Module, options: Mapping[str, Any]) -> nn.Module:
        """Return the static form of a layer, which holds the layer's own parameters."""
        return STATIC[type(layer)].sharing(layer, split=options["split"])

    def replacements(
        self,
        entries: Sequence[Entry],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace:
        """Sites return their inputs; each reader runs once on each phase, and its rows are chosen.

        The readers are found in the graph anew.
        """
        modules = dict(model.named_modules())
        names = [entry.site for entry in entries if entry.site in reading.site_nodes]
        split = next(entry.options["split"] for entry in entries)
        taken = Deferral(reading, names, modules).run().layers
        replaced: dict[Any, Any] = {}
        for name in names:
            place = reading.site_nodes[name]
            replaced[place.output] = ((place.input,), lambda x: x)
        for node in reading.graph:
            path = node.scope[0]
            if path in taken and node.op in CONVOLUTIONS | {"linear"}:
                replaced[node] = ((node.inputs[0],), _both_phases(modules[path], split))
        return replaced

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """No function at the site alone computes it."""
        return None


def _both_phases(layer: nn.Module, split: float | str) -> Callable[[Tensor], Tensor]:
    """Return what the layer's static form computes in evaluation, by the plain layer itself."""
    rows = len(layer.get_parameter("weight"))
    share = 0.5 if isinstance(split, str) else split
    boundary = math.floor(share * rows + 0.5)
    dim = -1 if isinstance(layer, nn.Linear) else -layer.get_parameter("weight").dim() + 1

    def respond(x: Tensor) -> Tensor:
        positive = layer(x.clamp(min=0)).narrow(dim, 0, boundary)
        negative = layer(x.clamp(max=0)).narrow(dim, boundary, rows - boundary)
        return torch.cat((positive, negative), dim)

    return respond
