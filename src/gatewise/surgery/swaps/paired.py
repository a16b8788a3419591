"""CReLU and its form for any activation: two output channels for each input channel."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import (
    REQUIRED,
    Sign,
    Site,
    SiteGraph,
    get_operator,
    holds_both_branches,
    is_never_negative,
)
from gatewise.surgery.calls import check_plain_call
from gatewise.surgery.planning import (
    UNCHANGED,
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    Swap,
    channel_dim,
)
from gatewise.surgery.propagate import PASSED_ON, SHAPED, Deferral, Widening, merge_modes, widen
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import CReLU, LeafModule

LEAKY = ("leaky_relu", "prelu")
# Calls that act alike on both outputs of a CReLU, so that a difference of both can follow.
MOVED = PASSED_ON | SHAPED


class InterleavedCReLU(LeafModule):
    """CReLU with its halves interleaved: ``[x0+, x0-, x1+, x1-, ...]``.

    Every contiguous slice of channels doubles in place, so what follows may be grouped, chunked or
    shuffled. Shape: ``(*, C, *) -> (*, 2C, *)``.
    """

    def __init__(self, *, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return interleave(x.relu(), x.neg().relu(), self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class ConcatAct(LeafModule):
    """``[act(x), act(-x)]`` for any elementwise ``act``: what CReLU is to ReLU.

    Shape: ``(*, C, *) -> (*, 2C, *)``.
    """

    def __init__(self, activation: nn.Module, *, dim: int = 1, interleaved: bool = False) -> None:
        super().__init__()
        self.activation = activation
        self.dim = dim
        self.interleaved = interleaved

    def forward(self, x: Tensor) -> Tensor:
        negative = self.activation(x.neg())
        positive = self.activation(x)
        if self.interleaved:
            return interleave(positive, negative, self.dim)
        return torch.cat((positive, negative), self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, interleaved={self.interleaved}"


def interleave(first: Tensor, second: Tensor, dim: int) -> Tensor:
    """``[first 0, second 0, first 1, second 1, ...]`` along ``dim``."""
    place = dim % first.dim()
    return torch.stack((first, second), place + 1).flatten(place, place + 1)


class PairedSwap(Swap):
    """``crelu`` and ``concat_act``. All their sites are widened in one sweep over the graph."""

    names = ("crelu", "concat_act")
    defaults: ClassVar = {}
    order = 0  # other swaps must know which channels change

    def check(self, request: Request) -> Request:
        """The width is ``"half"`` for ``crelu`` if the function shall not stay, else ``"same"``."""
        if request.preserve and request.width == "half":
            raise ArgumentError(
                "width: half the filters cannot compute the same function",
                got="width='half', preserve=True",
                fix="width='same' keeps the function; merge_pairs finds filters that can be spared",
            )
        same = request.preserve is not False or self.name == "concat_act"
        width = request.width or ("same" if same else "half")
        return super().check(replace(request, width=width))

    def check_site(self, context: PlanningContext, site: Site, request: Request) -> None:
        """Refuse what the unit cannot stand in for."""
        super().check_site(context, site, request)
        if request.unit != "crelu":
            check_plain_activation(context.graph, site)
        elif holds_both_branches(site.op):
            raise Refusal(Reason.TWO_BRANCHES)
        elif request.preserve and site.op not in ("relu", *LEAKY):
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op}; concat_act does it")

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Widen as many of the sites as can be widened together."""
        able = self.able_sites(context, assigned, draft)
        layouts: dict[str, tuple[str, ...]] = {}
        for name, (_, request) in able.items():
            layouts[name] = ("half",) if request.width == "half" else ("block", "interleaved")
        names = list(able)
        while True:
            widening = widen(context.graph, names, context.policy, layouts)
            scaled = _give_back_slopes(context, able, widening)
            lost = []
            for name in names:
                site, request = able[name]
                is_new = request.unit == "crelu" and site.op != "relu" and name not in scaled
                if is_new and request.preserve and name in widening.layouts:
                    lost.append(name)
                    words = f"{site.op}; concat_act does it"
                    draft.refused[name] = Refusal(Reason.NOT_PRESERVED, words)
            if not lost:
                break
            names = [name for name in names if name not in lost]
        draft.refused |= widening.refused
        draft.settings = widening.settings
        draft.maps = widening.sweeps[0].maps if widening.sweeps else {}
        for key, edit in widening.edits.items():
            new_weights = context.preserve is False and edit.fill == "zero"
            draft.edits[key] = replace(edit, fill="fresh") if new_weights else edit
        for name, layout in widening.layouts.items():
            site, request = able[name]
            channels = site.channels or 0
            options = {"dim": channel_dim(site), "layout": "block" if layout == "half" else layout}
            if name in scaled:
                options["slopes"] = "in the next layers"
            after = channels if layout == "half" else 2 * channels
            is_same = request.unit == "concat_act" or site.op == "relu" or name in scaled
            draft.put(site, request.unit, options, after, kept=layout != "half" and is_same)

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Note the sites whose input is never negative: half of the outputs would be constant."""
        for request, site in draft.changing(assigned):
            rectifies = request.unit == "crelu" or site.op == "relu"
            if rectifies and is_rectified(context.graph, site):
                draft.rectified.append(site.name)

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The unit in the entry's layout."""
        interleaved = entry.options["layout"] == "interleaved"
        dim = entry.options["dim"]
        if entry.unit == "concat_act":
            return ConcatAct(plain_activation(entry.op, old), dim=dim, interleaved=interleaved)
        return InterleavedCReLU(dim=dim) if interleaved else CReLU(dim=dim)

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """What is left if nothing reads the second outputs; with half the filters, the whole unit.

        The layer in front then keeps its first filters, so the unit sees the first channels.
        """
        if entry.after == entry.channels and unit is not None:
            dim = entry.options["dim"]
            return lambda x: unit.forward(x.narrow(dim, 0, x.shape[dim] // 2))
        is_new = entry.unit == "crelu" and entry.op != "relu" and "slopes" not in entry.options
        return torch.relu if is_new else UNCHANGED


def _give_back_slopes(
    context: PlanningContext, able: Mapping[str, tuple[Site, Request]], widening: Widening
) -> set[str]:
    """Let the layers behind leaky ReLUs read ``[W, -slope * W]``, and return these sites.

    The others are followed by something else than layers and calls that only move elements.
    """
    if context.preserve is False:
        return set()
    given_back = set()
    layers: dict[str, Tensor] = {}
    for name, layout in widening.layouts.items():
        site, request = able[name]
        if site.op not in LEAKY or request.unit != "crelu" or layout == "half":
            continue
        try:
            slopes = _slopes_of_readers(context, name)
        except Refusal:
            continue
        edits = [widening.edits.get((f"{path}.weight", 1)) for path in slopes]
        if all(edit is not None and edit.fill == "zero" for edit in edits):
            given_back.add(name)
            for path, of_site in slopes.items():  # a layer may read several sites, side by side
                known = layers.get(path, of_site)
                layers[path] = known.where(known != 1, of_site)
    for path, slopes in layers.items():
        edit = widening.edits[f"{path}.weight", 1]
        of_new = slopes[edit.index[edit.new]]
        factors = tuple((-of_new).where(of_new != 1, 0.0).tolist())
        widening.edits[f"{path}.weight", 1] = replace(edit, fill="scaled", factors=factors)
    return given_back


def _slopes_of_readers(context: PlanningContext, name: str) -> dict[str, Tensor]:
    """Return the slope of each input channel of the layers that read a site, by path.

    Raises:
        Refusal: something else reads it.
    """
    layers: dict[str, Tensor] = {}
    for reading in context.graph.readings.values():
        if name in reading.site_nodes:
            deferral = Deferral(reading, [name], context.modules).run()
            moved = MOVED | {reading.site_nodes[name].output.op}
            for node in deferral.slopes:
                if node.op not in moved:
                    raise Refusal(Reason.NO_RULE, node.op)
            merge_modes(layers, deferral.layers)
    return layers


def check_plain_activation(graph: SiteGraph, site: Site) -> None:
    """Refuse a functional call that no module with torch's defaults can stand in for."""
    operator = get_operator(site.op)
    # An argument without a default, or one that makes the output random, has no plain form.
    plain = operator.module is not None and REQUIRED not in operator.options.values()
    if site.kind == "functional" and (not plain or "training" in operator.options):
        raise Refusal(Reason.NO_RULE, site.op)
    check_plain_call(graph, site)


def plain_activation(op: str, old: nn.Module | None) -> nn.Module:
    """The activation itself, not in place, since its input is needed further."""
    module = get_operator(op).module or nn.Identity
    activation = copy.deepcopy(old) if old is not None else module()
    if hasattr(activation, "inplace"):
        vars(activation)["inplace"] = False
    return activation


def is_rectified(graph: SiteGraph, site: Site) -> bool:
    """Whether the input of ``site`` is never negative, in every mode it is in."""
    for reading in graph.readings.values():
        if site.name not in reading.site_nodes:
            continue
        source = reading.site_nodes[site.name].input
        # What a layer makes, as before most sites, can have any sign.
        if get_operator(source.op).sign is Sign.UNKNOWN or not is_never_negative(source):
            return False
    return True
