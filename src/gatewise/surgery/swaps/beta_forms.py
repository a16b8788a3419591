"""Put beta forms in place of maxima.

Rectifiers, absolute values, maxout and max pooling, each near where it was.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import MAX_POOLS, Example, Node, Site, SiteGraph
from gatewise.layers import BetaChannelPool, BetaPool1d, BetaPool2d
from gatewise.surgery.planning.plans import Plan
from gatewise.surgery.planning.selection import Where
from gatewise.surgery.planning.site_plan import plan_units
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.hard_forms import beta_within, distance_to_maximum
from gatewise.units import BetaVQ, registered_units

BETA = "beta"
POOLS: dict[Any, Any] = {nn.MaxPool1d: BetaPool1d, nn.MaxPool2d: BetaPool2d}
UNITS: dict[Any, str] = {
    registered_units()[name].module: name for name in ("abs", "maxout")
}  # maxima that are no activation operators


def make_beta_plan(
    model: nn.Module,
    example: Example,
    *,
    where: Where = None,
    preserve: bool = False,
    gates: bool = False,
    within: float = 0.01,
    learn_beta: bool = True,
    per_channel: bool = False,
) -> Plan:
    """A plan for ``gw.plan(model, "beta", ...)``.

    Beta forms of every maximum, at most ``within`` from it.

    ``within`` is a distance of a unit's outputs, over all its inputs; from it follows the beta to
    start at.
    """
    if isinstance(within, bool) or not isinstance(within, int | float) or not 0 < within < math.inf:
        raise ArgumentError(
            "beta: option within is not a distance", got=within, allowed="a finite number above 0"
        )
    if preserve:
        raise ArgumentError(
            "beta: a beta form below 1 is not the maximum it stands for",
            got="preserve=True",
            fix="within=..., small",
        )
    if (
        not isinstance(learn_beta, bool)
        or not isinstance(per_channel, bool)
        or (per_channel and not learn_beta)
    ):
        got = f"learn_beta={learn_beta}, per_channel={per_channel}"
        raise ArgumentError(
            "beta: options are not allowed",
            got=got,
            allowed="True, False; one per channel is learnt",
        )

    def choose(site: Site, graph: SiteGraph) -> dict[str, Any]:
        found = _pieces(site, graph, model)
        count = len(found["pieces"][0]) if isinstance(found["pieces"], list) else found["pieces"]
        beta = beta_within(count, within)
        if learn_beta and not 0 < beta < 1:
            raise Refusal(Reason.NOT_PRESERVED, f"beta would be {beta} in floating point")
        channels = _channels(site, found) if per_channel else None
        return found | {
            "beta": beta,
            "learn_beta": learn_beta,
            "channels": channels,
            "dim": _dim(site),
        }

    def added(options: Mapping[str, dict[str, Any]]) -> int:
        return sum((each["channels"] or 1) for each in options.values()) if learn_beta else 0

    return plan_units(
        model,
        BETA,
        example,
        choose,
        where=where,
        gates=gates,
        further=_maxima,
        added=added,
        notes=_notes,
    )


def _notes(options: Mapping[str, dict[str, Any]]) -> list[str]:
    """For each kind of maximum the beta, and how far its form is from it."""
    kinds: dict[tuple[str, int], float] = {}
    for each in options.values():
        count = len(each["pieces"][0]) if isinstance(each["pieces"], list) else each["pieces"]
        kinds[(each["form"], count)] = each["beta"]
    return [
        f"beta form of {count} pieces ({form}): starts at beta {beta:.6g}, "
        f"at most {distance_to_maximum(count, beta / (1 - beta)):.4g} from the maximum"
        for (form, count), beta in kinds.items()
    ]


def _pieces(site: Site, graph: SiteGraph, model: nn.Module) -> dict[str, Any]:
    """Which form a site takes, and its pieces: slopes and offsets, or their number."""
    if site.op == "relu":
        return {"form": "unit", "pieces": [[0.0, 1.0], [0.0, 0.0]]}
    if site.op == "leaky_relu":
        found = next(
            each.found[site.name] for each in graph.readings.values() if site.name in each.found
        )
        slope = float(found.output.arguments["negative_slope"])
        if not slope < 1:
            raise Refusal(Reason.NOT_PRESERVED, f"a slope of {slope} is no maximum")
        return {"form": "unit", "pieces": [[slope, 1.0], [0.0, 0.0]]}
    if site.op == "abs":
        return {"form": "unit", "pieces": [[-1.0, 1.0], [0.0, 0.0]]}
    if site.op in MAX_POOLS or site.op == "maxout":
        if site.kind == "functional":
            raise Refusal(Reason.SOURCE, "a functional call of pooling; use a module")
        module = model.get_submodule(site.path)
        if site.op == "maxout":
            return {"form": "channels", "pieces": int(module.pieces)}  # type: ignore[arg-type]  it is a number
        if type(module) not in POOLS or getattr(module, "return_indices", False):
            raise Refusal(Reason.NO_RULE, type(module).__name__)
        kernel = module.kernel_size
        sizes = kernel if isinstance(kernel, tuple) else (kernel,) * int(site.op[-2])
        return {"form": "pool", "pieces": math.prod(sizes)}  # type: ignore[arg-type]  they are numbers
    raise Refusal(Reason.NOT_PRESERVED, f"{site.op} is no maximum of affine pieces")


def _channels(site: Site, found: Mapping[str, Any]) -> int:
    if site.channels is None:
        raise Refusal(Reason.NO_CHANNELS)
    return site.channels


def _dim(site: Site) -> int:
    last = site.dim is None or (site.dim == len(site.shape) - 1 and len(site.shape) != 2)
    return -1 if last else int(site.dim or 0)


def _maxima(model: nn.Module, graph: SiteGraph) -> Iterable[Site]:
    """Max pooling, and units of ours that are maxima and no activation operators, as sites."""
    modules, seen = dict(model.named_modules()), set()
    first = len(graph.sites)
    for mode, reading in graph.readings.items():
        for node in reading.graph:
            path = node.scope[0]
            op = UNITS.get(type(modules.get(path))) or (node.op if node.op in MAX_POOLS else None)
            if op is None or path in seen:
                continue
            seen.add(path)
            kind = "module" if type(modules.get(path)) in {*POOLS, *UNITS} else "functional"
            yield _site(node, op, kind, first + len(seen), mode, reading.dims.get(node))


def _site(node: Node, op: str, kind: str, order: int, mode: str, dim: int | None) -> Site:
    path, shape = node.scope[0], node.shape or ()
    return Site(
        name=path if kind == "module" else f"{path or '(model)'}:{op}",
        path=path,
        call=0,
        kind=kind,
        op=op,
        role="pool" if op in MAX_POOLS else "unit",
        owner=path.rpartition(".")[0],
        place=0,
        order=order,
        dim=dim,
        channels=None if dim is None else shape[dim],
        shape=shape,
        producers=(),
        consumers=(),
        depth=1.0,
        shared=False,
        modes=(mode,),
    )


def beta_form(options: Mapping[str, Any], old: nn.Module | None, like: Tensor | None) -> nn.Module:
    """The beta form for one site; ``old`` is the module it replaces."""
    made = {name: options[name] for name in ("beta", "learn_beta", "channels")}
    if like is not None:
        made |= {"device": like.device, "dtype": like.dtype}
    if options["form"] == "unit":
        return BetaVQ(options["pieces"], dim=options["dim"], **made)
    if options["form"] == "channels":
        return BetaChannelPool(options["pieces"], dim=int(getattr(old, "dim", 1)), **made)
    form = POOLS[type(old)]
    sizes = {
        name: getattr(old, name)
        for name in ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    }
    return form(**sizes, **made)
