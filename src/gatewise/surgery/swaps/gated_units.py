"""Another gate function in a gated linear unit: SwiGLU to GEGLU, GLU to ReGLU."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from gatewise.graph import Found, Reading, Replace, Site, glu_of, holds_both_branches, replacing
from gatewise.surgery.planning import (
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
    check_option_names,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import TwoBranchUnit, create_unit

# The function of the gate; without one the unit is the product of both branches.
GATE_FUNCTIONS = {
    "glu": "sigmoid",
    "swiglu": "silu",
    "geglu": "gelu",
    "reglu": "relu",
    "bilinear": "",
}


class GatedUnitSwap(SiteSwap):
    """Exchange the gate function of gated linear units, however they are written.

    Where one operator or unit holds both branches (``torch.nn.GLU``, :class:`gatewise.nn.SwiGLU`),
    the unit takes its place and divides its input as before. Where the code multiplies an
    activation with a value, the activation is replaced.
    """

    names = tuple(GATE_FUNCTIONS)
    takes_gates = True

    def check(self, request: Request) -> Request:
        """Reject unknown options."""
        check_option_names(request, ())
        return super().check(request)

    def choose(self, context: PlanningContext, site: Site, request: Request) -> Mapping[str, Any]:
        """The dimension of a single operator, or the name of the gate's function."""
        function = GATE_FUNCTIONS[request.unit]
        if site.role != "glu":
            raise Refusal(Reason.NOT_GLU)
        if request.preserve and site.op not in (request.unit, function):
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {request.unit}")
        mode = site.modes[0]
        found = context.graph.readings[mode].found[site.name]
        if holds_both_branches(site.op):
            return _division(found, context.modules.get(site.path))
        if not _multiplies_value(found):
            raise Refusal(Reason.SEVERAL)
        return {"function": function}

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The unit of both branches, or the function of the gate."""
        if "function" not in entry.options:
            return create_unit(entry.unit, **entry.options)
        function = entry.options["function"]
        return create_unit(function) if function else nn.Identity()

    def replacements(
        self,
        entries: Sequence[Entry],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace:
        """The units at their sites."""
        sites = [entry.site for entry in entries if entry.site in reading.found]
        return replacing((reading.found[name], units[name]) for name in sites)


def _division(found: Found, module: nn.Module | None) -> dict[str, Any]:
    """Return how an operator or unit divides its input into gate and value."""
    if isinstance(module, TwoBranchUnit):
        return {"dim": module.dim, "layout": module.layout}
    return {"dim": int(found.output.arguments.get("dim", -1))}


def _multiplies_value(found: Found) -> bool:
    """Whether the activation itself, not a product of it, is multiplied with the value."""
    glu = glu_of(found.input, found.output, found.layout)
    return glu is not None and found.output in glu.product.inputs
