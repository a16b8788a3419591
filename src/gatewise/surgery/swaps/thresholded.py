"""An activation whose small outputs are set to zero: sparse gates without training."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.graph import COMPOSITE, Site, holds_both_branches
from gatewise.surgery.planning import Entry, PlanningContext, Request, UnitSwap
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.paired import check_plain_activation, plain_activation
from gatewise.units import LeafModule


class ThresholdedUnit(LeafModule):
    """An activation whose outputs are zero where their magnitude is at most ``threshold``.

    Liu et al., 2024, arXiv:2404.08763, put it on the gate of SwiGLU. NaN stays.

    Args:
        activation: the activation.
        threshold: the magnitude; 0 changes nothing.
    """

    def __init__(self, activation: nn.Module, threshold: float = 0.0) -> None:
        super().__init__()
        self.activation = activation
        self.threshold: float | None = threshold
        self.planned = threshold

    @property
    def differs_from_plan(self) -> bool:
        """Whether the threshold is another one than that of the plan that put this unit in."""
        return (self.threshold or 0.0) != self.planned

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(x)
        if self.threshold is None:
            return y
        return y.masked_fill(y.abs() <= self.threshold, 0)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}"


class ThresholdSwap(UnitSwap):
    """``thresholded``: the activation of a site with a threshold on its output."""

    names = ("thresholded",)
    defaults: ClassVar = {"threshold": 0.0}
    takes_width = False

    def check(self, request: Request) -> Request:
        """Check the threshold."""
        request = super().check(request)
        check_number("thresholded", "threshold", request.options["threshold"], least=0)
        return request

    def choose(
        self,
        context: PlanningContext,
        site: Site,
        request: Request,
    ) -> Mapping[str, Any]:
        """The threshold. A threshold of 0 keeps the function."""
        if holds_both_branches(site.op):
            raise Refusal(Reason.TWO_BRANCHES)
        if site.op == COMPOSITE and site.kind == "functional":
            raise Refusal(Reason.SEVERAL)
        threshold = float(request.options["threshold"])
        if request.preserve and threshold:
            raise Refusal(Reason.NOT_PRESERVED, f"a threshold of {threshold:g}")
        if site.kind == "functional":
            check_plain_activation(context.graph, site)
        return {"threshold": threshold}

    def build(
        self,
        entry: Entry,
        old: nn.Module | None,
        like: Tensor | None,
    ) -> nn.Module:
        """The activation, and a threshold behind it."""
        return ThresholdedUnit(plain_activation(entry.op, old), entry.options["threshold"])
