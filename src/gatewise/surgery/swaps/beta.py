"""Beta forms in place of maxima: rectifiers, absolute values, maxout and max pooling."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from gatewise.checks import check_flag, check_number
from gatewise.errors import ArgumentError
from gatewise.graph import MAX_POOLS, Site
from gatewise.layers import BetaChannelPool, BetaPool1d, BetaPool2d
from gatewise.surgery.planning import (
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
    channel_dim,
    factory_arguments,
    layer_site,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.hard_forms import beta_within, distance_to_maximum
from gatewise.units import BetaVQ, registered_units

POOLS: dict[Any, Any] = {nn.MaxPool1d: BetaPool1d, nn.MaxPool2d: BetaPool2d}
# Maxima among our units that are not activation operators of torch.
UNITS: dict[Any, str] = {registered_units()[name].module: name for name in ("abs", "maxout")}


class BetaSwap(SiteSwap):
    """``beta``: every maximum becomes its beta form, at most ``within`` from it."""

    names = ("beta",)
    defaults: ClassVar = {"within": 0.01, "learn_beta": True, "per_channel": False}
    takes_width = False
    can_match = False

    def check(self, request: Request) -> Request:
        """Check the options ``within``, ``learn_beta`` and ``per_channel``."""
        request = super().check(request)
        options = request.options
        check_number("beta", "within", options["within"], above=0)
        if request.preserve:
            raise ArgumentError(
                "beta: a beta form below 1 is not the maximum it stands for",
                got="preserve=True",
                fix="within=..., small",
            )
        learn_beta = options["learn_beta"]
        per_channel = options["per_channel"]
        check_flag("beta", "learn_beta", learn_beta)
        if check_flag("beta", "per_channel", per_channel) and not learn_beta:
            raise ArgumentError(
                "beta: per_channel=True needs learn_beta=True", got=f"learn_beta={learn_beta}"
            )
        return request

    def extra_sites(self, context: PlanningContext) -> Iterable[Site]:
        """Max pooling, and units of ours that are maxima and not activation operators."""
        return context.first("maxima", lambda: _find_maxima(context))

    def choose(self, context: PlanningContext, site: Site, request: Request) -> Mapping[str, Any]:
        """The form a site takes, its pieces, and the beta to start at."""
        wanted = request.options
        form = _form_of(context, site)
        beta = beta_within(_count(form["pieces"]), wanted["within"])
        if wanted["learn_beta"] and not 0 < beta < 1:
            raise Refusal(Reason.NOT_PRESERVED, f"beta would be {beta} in floating point")
        channels = None
        if wanted["per_channel"]:
            channels = site.channels
            if channels is None:
                raise Refusal(Reason.NO_CHANNELS)
        return {
            **form,
            "beta": beta,
            "learn_beta": wanted["learn_beta"],
            "channels": channels,
            "dim": channel_dim(site),
        }

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Count the betas, and note for each kind of maximum how far its form is from it."""
        betas: dict[tuple[str, int], float] = {}
        for _, site in draft.changing(assigned):
            options = draft.options[site.name]
            if options["learn_beta"]:
                draft.parameters += options["channels"] or 1
            betas[options["form"], _count(options["pieces"])] = options["beta"]
        for (form, count), beta in betas.items():
            distance = distance_to_maximum(count, beta / (1 - beta))
            draft.notes.append(
                f"beta form of {count} pieces ({form}): starts at beta {beta:.6g}, "
                f"at most {distance:.4g} from the maximum"
            )

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The beta form for one site."""
        options = entry.options
        choices = {name: options[name] for name in ("beta", "learn_beta", "channels")}
        choices |= factory_arguments(like)
        if options["form"] == "unit":
            return BetaVQ(options["pieces"], dim=options["dim"], **choices)
        if options["form"] == "channels":
            return BetaChannelPool(options["pieces"], dim=int(getattr(old, "dim", 1)), **choices)
        for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode"):
            choices[name] = getattr(old, name)
        return POOLS[type(old)](**choices)


def _count(pieces: Any) -> int:
    """The number of pieces, which is given as such or by their slopes and offsets."""
    return len(pieces[0]) if isinstance(pieces, list) else pieces


def _form_of(context: PlanningContext, site: Site) -> dict[str, Any]:
    """The form of a site and its pieces: slopes and offsets, or their number."""
    if site.op == "relu":
        return {"form": "unit", "pieces": [[0.0, 1.0], [0.0, 0.0]]}
    if site.op == "abs":
        return {"form": "unit", "pieces": [[-1.0, 1.0], [0.0, 0.0]]}
    if site.op == "leaky_relu":
        readings = context.graph.readings.values()
        place = next(
            reading.site_nodes[site.name] for reading in readings if site.name in reading.site_nodes
        )
        slope = float(place.output.arguments["negative_slope"])
        if not slope < 1:
            raise Refusal(Reason.NOT_PRESERVED, f"a slope of {slope} is no maximum")
        return {"form": "unit", "pieces": [[slope, 1.0], [0.0, 0.0]]}
    if site.op not in MAX_POOLS and site.op != "maxout":
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op} is no maximum of affine pieces")
    if site.kind == "functional":
        raise Refusal(Reason.SOURCE, "a functional call of pooling; use a module")
    module: Any = context.model.get_submodule(site.path)
    if site.op == "maxout":
        return {"form": "channels", "pieces": int(module.pieces)}
    if type(module) not in POOLS or getattr(module, "return_indices", False):
        raise Refusal(Reason.NO_RULE, type(module).__name__)
    kernel = module.kernel_size
    sizes = kernel if isinstance(kernel, tuple) else (kernel,) * int(site.op[-2])
    return {"form": "pool", "pieces": math.prod(sizes)}


def _find_maxima(context: PlanningContext) -> list[Site]:
    modules = context.modules
    sites: dict[str, Site] = {}
    for mode, reading in context.graph.readings.items():
        for node in reading.graph:
            path = node.scope[0]
            kind = type(modules.get(path))
            op = UNITS.get(kind) or (node.op if node.op in MAX_POOLS else None)
            if op is not None and path not in sites:
                is_module = kind in POOLS or kind in UNITS
                dim = reading.dims.get(node)
                shape = node.shape or ()
                sites[path] = layer_site(
                    context,
                    path,
                    len(sites) + 1,
                    name=path if is_module else f"{path or '(model)'}:{op}",
                    kind="module" if is_module else "functional",
                    op=op,
                    role="pool" if op in MAX_POOLS else "unit",
                    dim=dim,
                    channels=None if dim is None else shape[dim],
                    shape=shape,
                    modes=(mode,),
                )
    return list(sites.values())
