"""Phase selective layers in place of an activation and the layers that read it."""

from typing import Any, ClassVar

from torch import Tensor, nn

from gatewise.checks import check_flag
from gatewise.graph import Node, Site, parameter_count
from gatewise.surgery.calls import CallSite
from gatewise.surgery.planning import (
    UNCHANGED,
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    Swap,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import has_hooks
from gatewise.surgery.swaps.paired import is_rectified
from gatewise.surgery.swaps.put_back_planner import defer_with_readers, find_readers


class PhaseSelectiveSwap(Swap):
    """``psc``: the activation moves into the layers behind it, as a second weight."""

    names = ("psc",)
    defaults: ClassVar = {"put_back": False}

    def check(self, request: Request) -> Request:
        """Check the option ``put_back``."""
        request = super().check(request)
        check_flag("psc", "put_back", request.options["put_back"])
        return request

    def check_site(self, context: PlanningContext, site: Site, request: Request) -> None:
        """Refuse a module with hooks, which would not see the activation any more."""
        super().check_site(context, site, request)
        if site.kind != "functional" and has_hooks(context.modules.get(site.path)):
            raise Refusal(Reason.HOOKS, site.path)

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Follow the activations to the layers that can apply them."""
        able = self.able_sites(context, assigned, draft)
        readers: dict[Node, CallSite] = {}
        if any(request.options["put_back"] for request, _ in assigned):
            wanted = [site.name for _, sites in assigned for site in sites]
            readers = context.first(
                "readers",
                lambda: find_readers(
                    context.model, context.graph, wanted, *context.only_arguments("put_back")
                ),
            )
        kept, taken, put_back = defer_with_readers(
            context.graph, list(able), context.modules, readers, draft.refused, set(draft.maps)
        )
        draft.put_back += put_back
        draft.operations += taken.elements_put_back(context.first_graph)
        for path, slopes in taken.layers.items():
            draft.layers[path] = tuple(slopes.tolist())
        for name in kept:
            site, request = able[name]
            draft.put(site, request.unit, {}, kept=True)

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Note the sites whose input is never negative: the second weights would stay unused."""
        for _, site in draft.changing(assigned):
            if site.op == "prelu" and site.kind == "module":
                draft.parameters -= parameter_count(context.modules[site.path])
            if is_rectified(context.graph, site):
                draft.rectified.append(site.name)

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The site passes its input on."""
        return nn.Identity()

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """The activation stays: the second weights begin with its slope for negative inputs."""
        return UNCHANGED
