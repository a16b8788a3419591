"""A plain feed-forward part in place of a gated linear unit: the way back.

Note [Plain feed-forward parts]. ``W2 (act(g) * u) + b2`` with ``h`` channels becomes
``W2' act(g') + b2`` with ``h'`` channels. The first ``h`` channels keep the rows of the gate and
the columns of ``W2``. Further rows are drawn at random, and the columns that read them start at 0.
The value ``u`` is gone, so the part starts as ``W2 act(g) + b2``: a new function, except where the
value was exactly 1.

Where one operator or unit holds both branches (``torch.nn.GLU``, :class:`gatewise.nn.SwiGLU`), the
activation takes its place. Where the user's code multiplies an activation by a value, that code
stays. The layer of the value is replaced by the number 1, which has no weights. A layer that makes
both branches keeps the rows of the gate, and returns 1 in place of the value.

Both parts have as many parameters at ``h' = h (2 d + d' + 2 b) / (d + d' + b)``, in the letters of
Note [Gated feed-forward parts]: 3/2 of ``h`` for ``d = d'`` without biases.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.graph import (
    COMPOSITE,
    CUTS,
    RESHAPES,
    SPLITS,
    Node,
    Site,
    SiteNodes,
    glu_of,
    holds_both_branches,
    node_operations,
    parameter_count,
)
from gatewise.surgery.planning import (
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
    factory_arguments,
    layer_site,
)
from gatewise.surgery.propagate import ChannelMap, Edit
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.feed_forward import (
    MATCHED,
    SAME,
    SharedLinear,
    check_hidden,
    matched_plain_hidden,
    next_layer,
    own_linear,
)
from gatewise.surgery.swaps.gated_units import GATE_FUNCTIONS
from gatewise.surgery.swaps.paired import check_plain_activation, interleave, plain_activation
from gatewise.units import LeafModule, create_unit, get_unit

NAME = "plain_mlp"
ROLE = "value"
CHUNKS = ("chunk", "unsafe_chunk")
WHOLE = "all"
SHARED_FACTS = ("dim", "channels", "shape", "depth", "modes")  # of a gate and its value


def _rows_of(part: str, width: int) -> Tensor:
    """Return the rows of a layer that make a part of its output, ``width`` of them."""
    first = torch.arange(width, device="cpu")
    rows = {
        WHOLE: first,
        "first half": first,
        "second half": first + width,
        "even": 2 * first,
        "odd": 2 * first + 1,
    }
    if part not in rows:
        raise Refusal(Reason.SPLIT, part)
    return rows[part]


def _with_ones(gate: Tensor, part: str) -> Tensor:
    """Return the gate, and 1 as its value, as one tensor in which the gate is ``part``."""
    ones = torch.ones_like(gate)
    first, second = (gate, ones) if part in ("first half", "even") else (ones, gate)
    if part in ("even", "odd"):
        return interleave(first, second, -1)
    return torch.cat((first, second), -1)


class ConstantOne(LeafModule):
    """The number 1 in place of a linear layer that made the value of a gated linear unit.

    Shape: ``(*, in) -> (*, width)``.

    Args:
        width: outputs for each row.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return torch.ones_like(x[..., :1]).expand(*x.shape[:-1], self.width)

    def extra_repr(self) -> str:
        return f"width={self.width}"


class GateLayer(SharedLinear):
    """A linear layer for a gate, which returns 1 as the value beside it.

    Shape: ``(*, in_features) -> (*, 2 * out_features)``.

    Args:
        linear: the layer whose parameters it takes over: the rows of the gate.
        part: which part of the output is the gate: ``"first half"``, ``"second half"``, ``"even"``
            or ``"odd"``.
    """

    def __init__(self, linear: nn.Linear, part: str) -> None:
        super().__init__(linear)
        self.part = part

    def forward(self, input: Tensor) -> Tensor:
        """Return gate and value."""
        return _with_ones(F.linear(input, self.weight, self.bias), self.part)

    def extra_repr(self) -> str:
        """Return sizes and part."""
        return f"{super().extra_repr()}, gate={self.part}"


@dataclass(frozen=True)
class GatedPart:
    """The layers of a gated linear unit.

    Attributes:
        gate: the call of the layer that makes the gate.
        value: the call of the layer that makes the value; ``None`` if one operator or unit holds
            both branches.
        second: the call of the layer that reads the product.
        part: which outputs of its layer the gate is.
        value_part: the same of the value.
        width: channels of the gate.
        is_free: whether the code divides a layer's output into halves of any width.
    """

    gate: Node
    value: Node | None
    second: Node
    part: str
    value_part: str
    width: int
    is_free: bool

    @property
    def paths(self) -> tuple[str, str, str]:
        """The paths of the three layers."""
        value = self.value or self.gate
        return self.gate.scope[0], value.scope[0], self.second.scope[0]


class PlainMLPSwap(SiteSwap):
    """``plain_mlp``: a plain feed-forward part in place of a gated linear unit.

    See Note [Plain feed-forward parts]. Options: ``activation``, the name of a unit, by default the
    function of the gate; ``hidden``, ``"matched"`` (as many parameters), ``"same"`` or a number.
    """

    names = (NAME,)
    defaults: ClassVar = {"activation": None, "hidden": MATCHED}
    takes_gates = True
    takes_width = False
    can_match = False

    def check(self, request: Request) -> Request:
        """Check the options."""
        request = super().check(request)
        check_hidden(request.unit, request.options["hidden"])
        name = request.options["activation"]
        if name is not None:
            spec = get_unit(name)
            if spec.channel_ratio != 1 or spec.needs:
                raise ArgumentError(
                    "plain_mlp: the unit is no function of one number",
                    got=name,
                    allowed="a unit with one output for each input, such as 'gelu'",
                )
        return request

    def extra_sites(self, context: PlanningContext) -> Iterable[Site]:
        """The layers of values, which change together with their gates."""
        return context.first("values of gates", lambda: _value_sites(context))

    def choose(self, context: PlanningContext, site: Site, request: Request) -> Mapping[str, Any]:
        """The width, and the activation in place of the gate."""
        if site.role == ROLE:
            raise Refusal(Reason.VALUE)
        if site.role != "glu":
            raise Refusal(Reason.NO_GLU)
        part = _part_of(context, site)
        hidden = _hidden(context, part, request.options["hidden"])
        if hidden != part.width and not part.is_free:
            raise Refusal(Reason.SPLIT, f"{part.width} channels are written in the code")
        name = request.options["activation"] or ""
        if holds_both_branches(site.op):
            name = name or GATE_FUNCTIONS[site.op]
            if not name:
                raise Refusal(Reason.NO_RULE, "it has no activation: name one with activation=")
        elif not name and site.kind == "functional":
            if site.op == COMPOSITE:
                raise Refusal(Reason.SEVERAL)
            check_plain_activation(context.graph, site)
        if request.preserve:
            _check_keeps(context, site, part, name, hidden)
        return {"hidden": hidden, "activation": name, "part": part.part, "width": part.width}

    def edit(self, context: PlanningContext, site: Site, draft: Draft) -> None:
        """Edit the layers around a gate, and let its value be 1."""
        values = {value.path: value for value in self.extra_sites(context)}
        _draft_part(context, site, values, draft)

    def follows_width(self, options: Mapping[str, Any]) -> bool:
        """A part has its own widths."""
        return False

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Count what the layers of values no longer take, and what learned activations bring."""
        for _, site in draft.changing(assigned):
            options = draft.options[site.name]
            if options.get("value") == WHOLE:
                draft.parameters -= parameter_count(context.modules[site.name])
            activation = options.get("activation")
            if activation and get_unit(activation).learns:
                draft.parameters += parameter_count(create_unit(activation, device="meta"))
        if not context.preserve:
            draft.notes.append("the values of gates are 1 now: the function is a new one")

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The activation, or what stands in for the layer of the value."""
        if entry.role == ROLE:
            if entry.options["value"] == WHOLE:
                return ConstantOne(entry.options["hidden"])
            assert isinstance(old, nn.Linear)  # noqa: S101  a value is made by a linear layer
            return GateLayer(old, entry.options["value"])
        name = entry.options["activation"]
        if not name:
            return plain_activation(entry.op, old)
        return create_unit(name, **factory_arguments(like if get_unit(name).learns else None))

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """The activation of the gate's channels, and 1 for the value.

        Channels that are left out count as zero.
        """
        if unit is None:
            return None
        width = int(entry.options["width"])
        kept = min(width, int(entry.options["hidden"]))
        if entry.role == ROLE:
            return _reference_value(unit, width, kept)
        part = entry.options["part"]
        rows = _rows_of(part if holds_both_branches(entry.op) else WHOLE, width)

        def function(x: Tensor) -> Tensor:
            gate = x.index_select(-1, rows.to(x.device)[:kept])
            return F.pad(unit.forward(gate), (0, width - kept))

        return function


def _reference_value(unit: nn.Module, width: int, kept: int) -> Callable[[Tensor], Tensor]:
    """Return what the original's layer of the value must compute."""

    def ones(x: Tensor) -> Tensor:
        return x.new_ones(*x.shape[:-1], width)

    def gate_and_ones(x: Tensor) -> Tensor:
        assert isinstance(unit, GateLayer)  # noqa: S101  the other unit of a value
        bias = None if unit.bias is None else unit.bias[:kept]
        gate = F.linear(x, unit.weight[:kept], bias)
        return _with_ones(F.pad(gate, (0, width - kept)), unit.part)

    return gate_and_ones if isinstance(unit, GateLayer) else ones


def _part_of(context: PlanningContext, site: Site) -> GatedPart:
    """Return the layers of the gated linear unit at ``site``, or raise a :class:`Refusal`."""
    parts = []
    for mode in site.modes:
        parts.append(_part_in(context, context.graph.readings[mode].site_nodes[site.name]))
    if any(part.paths != parts[0].paths for part in parts):
        raise Refusal(Reason.NOT_MLP, "other layers in train mode")
    return parts[0]


def _part_in(context: PlanningContext, found: SiteNodes) -> GatedPart:
    glu = glu_of(found.input, found.output, found.layout)
    if glu is None:
        raise Refusal(Reason.NO_GLU)
    second = next_layer(glu.product)
    own_linear(context, second)
    value = None
    is_free = True
    if holds_both_branches(found.op):
        gate = found.input
        if int(found.output.arguments.get("dim", -1)) not in (-1, gate.rank - 1):
            raise Refusal(Reason.NOT_MLP, "it divides another dimension than the last")
        _check_readers(gate, found, None)
        layer = own_linear(context, gate)
        width = layer.out_features // 2
    elif glu.value_node is None or found.output not in glu.product.inputs:
        raise Refusal(Reason.SEVERAL)
    else:
        gate, is_free = _layer_behind(found.input)
        value, is_also_free = _layer_behind(glu.value_node)
        is_free &= is_also_free
        for node in {gate, value}:
            _check_readers(node, found, glu.product)
        layer = own_linear(context, gate)
        if own_linear(context, value).out_features != layer.out_features:
            raise Refusal(Reason.DIFFERENT, "gate and value")
        width = layer.out_features // (2 if gate is value else 1)
    part = GatedPart(gate, value, second, glu.gate.part, glu.value.part, width, is_free)
    if part.paths[2] in part.paths[:2]:
        raise Refusal(Reason.SHARED, part.paths[2])
    if second.inputs[0].shape is None or second.inputs[0].shape[-1] != width:
        raise Refusal(Reason.SPLIT, part.part)
    return part


def _layer_behind(node: Node) -> tuple[Node, bool]:
    """Return the call whose output ``node`` is a part of, and whether any width is divided so."""
    is_free = True
    while node.op == "getitem" or node.op in CUTS | SPLITS | RESHAPES:
        step = node.op == "slice" and int(node.arguments.get("step") or 1) == 2
        is_free &= node.op == "getitem" or node.op in CHUNKS or step
        node = node.inputs[0]
    return node, is_free


def _check_readers(node: Node, found: SiteNodes, product: Node | None) -> None:
    """Refuse a branch that more than the activation and the product read."""
    for user in node.users:
        if user is product or user is found.output:
            continue
        if found.kind != "functional" and user.scope == (found.path, found.call):
            continue
        if product is None or not (user.op == "getitem" or user.op in CUTS | SPLITS | RESHAPES):
            raise Refusal(Reason.BRANCH)
        _check_readers(user, found, product)


def _hidden(context: PlanningContext, part: GatedPart, hidden: Any) -> int:
    """Return the width of the plain part."""
    if hidden in (SAME, None):
        return part.width
    if hidden != MATCHED:
        return int(hidden)
    first = own_linear(context, part.gate)
    second = own_linear(context, part.second)
    return matched_plain_hidden(
        part.width, first.in_features, second.out_features, bias=first.bias is not None
    )


def _check_keeps(
    context: PlanningContext, site: Site, part: GatedPart, name: str, hidden: int
) -> None:
    """Refuse unless the value is exactly 1, so that the function stays."""
    layer = own_linear(context, part.value or part.gate)
    own = GATE_FUNCTIONS.get(site.op, site.op)
    rows = _rows_of(part.value_part, part.width).to(layer.weight.device)
    is_one = not layer.weight.is_meta and layer.bias is not None
    is_one = is_one and not bool(layer.weight[rows].any())
    is_one = is_one and bool((layer.bias[rows] == 1).all())
    if not is_one or hidden < part.width or name not in ("", own):
        raise Refusal(Reason.NOT_PRESERVED, "its value is not 1 everywhere")


def _draft_part(
    context: PlanningContext, site: Site, values: Mapping[str, Site], draft: Draft
) -> None:
    """Add the edits of the layers around ``site`` to the draft, and the entry of its value."""
    part = _part_of(context, site)
    hidden = int(draft.options[site.name]["hidden"])
    _edit_layers(own_linear(context, part.gate), part, hidden, draft)
    channels = torch.arange(hidden, device="cpu")
    new = channels >= part.width
    last = part.gate.rank - 1
    own = ChannelMap(last, channels % part.width, new)
    draft.maps = {**draft.maps, part.gate: own}
    draft.after[site.name] = hidden
    if part.value is None:
        return
    options = {"hidden": hidden, "width": part.width, "value": WHOLE}
    if part.value is part.gate:
        options["value"] = part.part
        own = ChannelMap(last, own.index.repeat(2), new.repeat(2))  # the layer returns ones, too
    else:
        draft.operations -= round(node_operations(part.value))
    draft.maps = {**draft.maps, part.value: own}
    value = values[part.paths[1]]
    draft.refused.pop(value.name, None)
    draft.put(value, NAME, options, hidden)


def _edit_layers(first: nn.Linear, part: GatedPart, hidden: int, draft: Draft) -> None:
    """Give both layers of the plain part their width."""
    gate, _, second = part.paths
    channels = torch.arange(hidden, device="cpu")
    new = channels >= part.width
    rows = _rows_of(part.part, part.width)[channels % part.width]
    if hidden != first.out_features:
        draft.put_edit(Edit(f"{gate}.weight", 0, rows, new, "fresh"))
        if first.bias is not None:
            draft.put_edit(Edit(f"{gate}.bias", 0, rows, new, "zero"))
        draft.resize(gate, "out_features", first.out_features, hidden)
    if hidden != part.width:
        draft.put_edit(Edit(f"{second}.weight", 1, channels % part.width, new, "zero"))
        draft.resize(second, "in_features", part.width, hidden)


def _value_sites(context: PlanningContext) -> list[Site]:
    sites: list[Site] = []
    seen: set[str] = set()
    for site in context.graph.sites:
        if site.role != "glu":
            continue
        try:
            part = _part_of(context, site)
        except Refusal:
            continue
        path = part.paths[1]
        if part.value is None or path in seen:
            continue
        seen.add(path)
        facts = {name: getattr(site, name) for name in SHARED_FACTS}
        sites.append(layer_site(context, path, len(sites) + 1, op="linear", role=ROLE, **facts))
    return sites
