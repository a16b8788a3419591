"""Any unit of the catalogue with as many outputs as inputs, in place of an activation."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gatewise.errors import ArgumentError, UnknownNameError, unknown_name
from gatewise.extensions import in_papers
from gatewise.graph import (
    Site,
    holds_both_branches,
    parameter_count,
)
from gatewise.surgery.calls import options_as_called
from gatewise.surgery.planning import (
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    UnitSwap,
    channel_dim,
    factory_arguments,
    swap_names,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import Unit, create_unit, get_unit, registered_units


class PointwiseSwap(UnitSwap, default=True):
    """A unit of the catalogue."""

    takes_written = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.spec = _find_unit(name)

    def choose(
        self,
        context: PlanningContext,
        site: Site,
        request: Request,
    ) -> Mapping[str, Any]:
        """The unit's options, with the site's channels for units that have a number for each."""
        if holds_both_branches(site.op):
            raise Refusal(Reason.TWO_BRANCHES)
        options = dict(request.options)
        if request.preserve is not False:
            try:
                options = _same_numbers(context, site, request)
            except Refusal:
                if request.preserve:
                    raise
        spec = get_unit(request.unit)  # several units of one plan are drafted together
        options = _with_channels(spec, site, options)
        if spec.make is not None:
            _check_own(spec, site, options)
        elif request.options:  # a wrong option is an error of the plan, not of the swap
            place: dict[str, Any] = {"device": "meta"} if spec.learns else {}
            create_unit(request.unit, **{**options, **place})
        return options

    def follows_width(self, options: Mapping[str, Any]) -> bool:
        """Units that need to know the channels do not."""
        return not self.spec.needs and options.get("channels") is None

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Count the parameters of units that learn, less those of the modules they replace."""
        replaced: set[str] = set()
        for request, site in draft.changing(assigned):
            if site.kind != "functional":
                replaced.add(site.path)
            if get_unit(request.unit).learns:
                options = {**draft.options[site.name], "device": "meta"}
                unit = create_unit(request.unit, **options)
                draft.parameters += parameter_count(unit)
                draft.operations += _operations_inside(unit, site)
        for path in replaced:
            draft.parameters -= parameter_count(context.modules[path])

    def build(
        self,
        entry: Entry,
        old: nn.Module | None,
        like: Tensor | None,
    ) -> nn.Module:
        """The unit with the entry's options."""
        place = factory_arguments(like if self.spec.learns else None)
        return create_unit(entry.unit, **entry.options, **place)


def _find_unit(name: str) -> Unit:
    """The unit called ``name``; an error, if it changes the number of channels."""
    units = registered_units()
    try:
        spec = get_unit(name)
    except UnknownNameError as error:
        if in_papers("units", name):
            raise error from None
        names = [other for other, spec in units.items() if _keeps_channels(spec)]
        raise unknown_name("unit or swap", name, {*names, *swap_names()}) from None
    if not _keeps_channels(spec):
        raise ArgumentError(
            "plan: the unit changes the number of channels, and no swap makes up for it",
            got=name,
            allowed="units with as many outputs as inputs, " + ", ".join(swap_names()),
        )
    return spec


def _keeps_channels(spec: Unit) -> bool:
    return spec.channel_ratio == 1 and "groups" not in spec.needs


def _same_numbers(context: PlanningContext, site: Site, request: Request) -> dict[str, Any]:
    """The options with which the unit computes what the activation computes, or a Refusal."""
    if request.unit != site.op:
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {request.unit}")
    if site.written and (request.options or site.op == "leaky_relu2"):
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op}, written as {', '.join(site.written)}")
    if site.written:
        return {}
    options = options_as_called(context.graph, site, request.options)
    if site.op == "prelu":
        options.setdefault("slope", _trained_slope(context.modules.get(site.path)))
    return options


def _check_own(spec: Unit, site: Site, options: Mapping[str, Any]) -> None:
    """Raise unless the user's activation takes the input of ``site`` and keeps its shape."""
    unit = create_unit(spec.name, **options).eval()
    try:
        with torch.no_grad():
            outputs = unit(torch.zeros(site.shape))
    except Exception as problem:
        raise ArgumentError(
            f"unit: {spec.title} fails on the input at {site.name}",
            got=f"shape {tuple(site.shape)}, {type(problem).__name__}: {problem}",
        ) from problem
    shape = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
    if shape != tuple(site.shape):
        raise ArgumentError(
            f"unit: {spec.title} does not keep the shape of its input at {site.name}",
            got=shape,
            allowed=tuple(site.shape),
        )


def _trained_slope(module: nn.Module | None) -> float:
    """The slope of a PReLU, or a :class:`Refusal` if it has different ones for its channels."""
    slopes = getattr(module, "weight", getattr(module, "slope", None))
    if not isinstance(slopes, Tensor):
        raise Refusal(Reason.NOT_PRESERVED, "prelu with a weight that is no module's own")
    values = slopes.detach().flatten()
    if bool((values != values[0]).any()):
        raise Refusal(Reason.NOT_PRESERVED, "prelu with different slopes for its channels")
    return float(values[0])


def _with_channels(spec: Unit, site: Site, options: Mapping[str, Any]) -> dict[str, Any]:
    complete = dict(options)
    if site.channels is None or site.dim is None:
        if spec.needs:
            raise Refusal(Reason.NO_CHANNELS)
        return complete
    if "maps" in spec.needs and (len(site.shape) != 4 or site.dim != 1):
        raise Refusal(Reason.NO_CHANNELS, "the unit takes feature maps (N, C, H, W)")
    if "channels" in spec.options:
        complete.setdefault("channels", site.channels)
    if "dim" in spec.options:
        complete.setdefault("dim", channel_dim(site))
    return complete


def _operations_inside(unit: nn.Module, site: Site) -> int:
    """Operations of the layers inside a unit, besides the one per element that each unit counts."""
    if not any(isinstance(layer, nn.Conv2d | nn.Linear) for layer in unit.modules()):
        return 0
    with FlopCounterMode(display=False) as count, torch.no_grad():
        unit.eval()(torch.empty(site.shape, device="meta"))
    return count.get_total_flops()
