"""Another gate function in a gated linear unit, and gated linear units for feed-forward parts."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.graph import Reading, Replace, Site, SiteNodes, glu_of, holds_both_branches
from gatewise.surgery.planning import Draft, Entry, PlanningContext, Request, UnitSwap
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.feed_forward import MATCHED, check_hidden, draft_gated, gated_options
from gatewise.units import TwoBranchUnit, create_unit

DIVISION = ("dim", "layout")
# The function of the gate; with an empty one the unit is the product of both branches. None: the
# value has a function, too, so the unit takes the place of operators of both branches only.
GATE_FUNCTIONS: dict[str, str | None] = {
    "glu": "sigmoid",
    "swiglu": "silu",
    "geglu": "gelu",
    "reglu": "relu",
    "bilinear": "",
    "clamped_swiglu": None,
    "situ_glu": None,
}


class GatedUnitSwap(UnitSwap):
    """Exchange the gate function of gated linear units, however they are written.

    Where one operator or unit holds both branches (``torch.nn.GLU``, :class:`gatewise.nn.SwiGLU`),
    the unit takes its place and divides its input as before. Where the code multiplies an
    activation with a value, the activation is replaced.

    With the option ``hidden``, activations of feed-forward parts become gated linear units, too.
    See Note [Gated feed-forward parts].
    """

    names = tuple(GATE_FUNCTIONS)
    defaults: ClassVar = {"hidden": None}
    takes_gates = True

    def check(self, request: Request) -> Request:
        """Check the option ``hidden``."""
        request = super().check(request)
        check_hidden(request.unit, request.options["hidden"])
        return request

    def choose(
        self,
        context: PlanningContext,
        site: Site,
        request: Request,
    ) -> Mapping[str, Any]:
        """The dimension of a single operator, or the name of the gate's function."""
        function = GATE_FUNCTIONS[request.unit]
        if site.role != "glu":
            return self._gate_for(context, site, request)
        if request.preserve and site.op not in (request.unit, function):
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {request.unit}")
        mode = site.modes[0]
        found = context.graph.readings[mode].site_nodes[site.name]
        if holds_both_branches(site.op):
            return _division(found, context.modules.get(site.path))
        if function is None or not _multiplies_value(found):
            raise Refusal(Reason.SEVERAL)
        return {"function": function}

    def _gate_for(
        self, context: PlanningContext, site: Site, request: Request
    ) -> Mapping[str, Any]:
        """The options of a unit that makes a feed-forward part gated."""
        hidden = request.options["hidden"]
        if GATE_FUNCTIONS[request.unit] is None:
            raise Refusal(Reason.NO_GLU)
        if hidden is None:
            try:
                gated_options(context, site, MATCHED)
            except Refusal:
                raise Refusal(Reason.NO_GLU) from None
            raise Refusal(Reason.NOT_GLU)
        options = gated_options(context, site, hidden)
        if request.preserve:
            keeps = site.op == GATE_FUNCTIONS[request.unit] and options["ones"]
            if not keeps or options["hidden"] != site.channels:
                raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {request.unit}")
        return options

    def edit(self, context: PlanningContext, site: Site, draft: Draft) -> None:
        """Edit the layers around a site that becomes gated."""
        if "hidden" in draft.options[site.name]:
            draft_gated(context, site, draft)

    def follows_width(self, options: Mapping[str, Any]) -> bool:
        """A part that becomes gated has its own widths."""
        return "hidden" not in options

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """The unit; where a part becomes gated, its gate with values as they start.

        Channels that are left out count as zero.
        """
        if "hidden" not in entry.options:
            return super().reference(entry, unit)
        name = GATE_FUNCTIONS[entry.unit]
        gate = create_unit(name) if name else nn.Identity()
        width = entry.options["hidden"] if entry.options["ones"] else 0

        def function(x: Tensor) -> Tensor:
            kept = gate(x[..., :width])
            return torch.cat((kept, torch.zeros_like(x[..., width:])), -1)

        return function

    def build(
        self,
        entry: Entry,
        old: nn.Module | None,
        like: Tensor | None,
    ) -> nn.Module:
        """The unit of both branches, or the function of the gate."""
        if "function" not in entry.options:
            options = {name: entry.options[name] for name in DIVISION if name in entry.options}
            return create_unit(entry.unit, **options)
        function = entry.options["function"]
        return create_unit(function) if function else nn.Identity()

    def replacements(
        self,
        entries: Sequence[Entry],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace | None:
        """The units at their sites."""
        if any("hidden" in entry.options for entry in entries):
            return None
        return super().replacements(entries, reading, model, units)


def _division(found: SiteNodes, module: nn.Module | None) -> dict[str, Any]:
    """Return how an operator or unit divides its input into gate and value."""
    if isinstance(module, TwoBranchUnit):
        return {"dim": module.dim, "layout": module.layout}
    return {"dim": int(found.output.arguments.get("dim", -1))}


def _multiplies_value(found: SiteNodes) -> bool:
    """Whether the activation itself, not a product of it, is multiplied with the value."""
    glu = glu_of(found.input, found.output, found.layout)
    return glu is not None and found.output in glu.product.inputs
