"""Find the activation sites of a graph: which nodes are one, and which module makes the call."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from gatewise.graph.glu import Branch
from gatewise.graph.ops import BROADCAST, ELEMENTWISE, GLUS, LEAVES, is_activation
from gatewise.graph.trace import Graph, Node, Scope
from gatewise.graph.written_activations import Written, find_written, incomplete_activations
from gatewise.units import LeafModule, TwoBranchUnit, UnitModule, registered_units

SQUARED_RELU = "relu2"  # a ReLU of which the code uses only the square
RECTIFIERS = ("relu", "leaky_relu")
COMPOSITE = "composite"  # an activation made of several operations, such as a GELU written out


@dataclass(frozen=True)
class Site:
    """One activation call of a model, as users see it.

    Attributes:
        name: unique name, such as ``"layer1.0.relu"``, ``"layer1.0.relu@1"`` for the second call
            of that module, or ``"block:relu#0"`` for a functional call.
        path: the activation's module; for a functional call, the module whose ``forward`` has it.
        call: which call of that module this is, from 0.
        kind: ``"module"``, ``"functional"``, ``"reused"`` or ``"hidden-in-norm"``.
        op: the operator, or ``"composite"`` for several.
        role: one of :data:`gatewise.graph.ROLES`.
        owner: the module whose ``forward`` makes the call.
        place: which activation call this is among those of the owner's code, in one of its calls.
        order: which activation call of the whole forward pass this is.
        dim: the dimension of the channels, counted from the front; ``None`` if no layer tells.
        channels: the number of channels.
        shape: the shape of the output.
        producers: paths of the layers before it; ``"input"`` is the model's input.
        consumers: paths of the layers after it; ``"output"`` is the model's output.
        depth: 0 for the first site, 1 for the last.
        shared: whether several calls of the owner go through this same place.
        modes: ``"eval"``, ``"train"`` or both.
        gate: the branch of the gate, for the role ``"glu"``.
        value: the branch that the gate multiplies, for the role ``"glu"``.
        written: the operators of an activation that the code writes with several calls.
        part_of: the operators of what the code computes of its input, if that is more than this
            activation and is not one site.
    """

    name: str
    path: str
    call: int
    kind: str
    op: str
    role: str
    owner: str
    place: int
    order: int
    dim: int | None
    channels: int | None
    shape: tuple[int, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    depth: float
    shared: bool
    modes: tuple[str, ...]
    gate: Branch | None = None
    value: Branch | None = None
    written: tuple[str, ...] = ()
    part_of: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the site as plain values."""
        return asdict(self)


@dataclass(frozen=True)
class SiteNodes:
    """One activation site in one graph. ``path``, ``call``, ``kind`` and ``op`` as in a Site.

    Attributes:
        path: the module.
        call: which call of the module this is, from 0.
        kind: the kind of call.
        op: the operator, or ``"composite"``.
        input: the node that goes in.
        output: the node that comes out.
        order: which activation call of the whole forward pass this is; the first one, if the site
            has several.
        layout: how the input holds gate and value, for a gated linear unit of this library.
        region: the calls of an activation that the code writes with several calls.
        inner: order, operator and module of each activation call in the region; the module is
            empty for a functional call.
        part_of: as in a Site.
    """

    path: str
    call: int
    kind: str
    op: str
    input: Node
    output: Node
    order: int
    layout: str | None = None
    region: tuple[Node, ...] = ()
    inner: tuple[tuple[int, str, str], ...] = ()
    part_of: tuple[str, ...] = ()


def activation_sites(
    graph: Graph,
    model: nn.Module,
    *,
    units: bool = False,
) -> list[SiteNodes]:
    """Return every activation call, in the order of the calls.

    A call of one of this library's units is one site, whatever operators it is made of. Its ``op``
    is the name of the unit, with ``units`` or if it has other numbers of inputs and outputs.
    """
    modules = dict(model.named_modules())
    by_scope: dict[Scope, list[Node]] = defaultdict(list)
    for node in graph:
        if node.op not in LEAVES and node.op != "output":
            by_scope[node.scope].append(node)
    calls = _calls_per_parent_call(graph)
    sites: list[SiteNodes] = []
    module_calls: set[Scope] = set()  # calls of activation modules; each is one site
    unit_calls = _unit_calls(by_scope, modules, every=units)
    written: dict[Node, Written] = {}  # by each of its activation calls, or by its last call
    for found in find_written(graph):
        is_own = _is_internal(found.end, modules)
        if not is_own and _is_of_one_module(found, by_scope, modules, unit_calls):
            members = [member for member in found.region if is_activation(member.op)]
            written |= dict.fromkeys(members or [found.end], found)
    activations = []
    for node in graph:
        is_call = is_activation(node.op) and node.floating
        called = is_call and not _is_internal(node, modules)
        if node.scope in unit_calls or called or node in written:
            activations.append(node)
    orders = {node: order for order, node in enumerate(activations)}
    for order, node in enumerate(activations):
        if node.scope in module_calls:
            continue
        path, call = node.scope
        ends = _module_call(node, by_scope[node.scope], modules)
        if node in written and (ends is None or is_activation(node.op)):
            found = written[node]
            if node is next(member for member in found.region if member in written):
                sites.append(_written_site(found, orders))
            continue
        if node.scope in unit_calls:
            module_calls.add(node.scope)
            unit, source, result = unit_calls[node.scope]
            kind = _module_kind(path, modules, calls)
            module = modules[path]
            layout = module.layout if isinstance(module, TwoBranchUnit) else None
            sites.append(SiteNodes(path, call, kind, unit, source, result, order, layout))
            continue
        if ends is None:
            source = node.inputs[0]
            sites.append(SiteNodes(path, call, "functional", node.op, source, node, order))
            continue
        module_calls.add(node.scope)
        op = node.op if ends == (node.inputs[0], node) else COMPOSITE
        sites.append(SiteNodes(path, call, _module_kind(path, modules, calls), op, *ends, order))
    return _with_parts(graph, sites, by_scope)


def _with_parts(
    graph: Graph, sites: Sequence[SiteNodes], by_scope: Mapping[Scope, Sequence[Node]]
) -> list[SiteNodes]:
    """Return the sites, with ``part_of`` where the code computes more of their input."""
    ends = {}
    for site in sites:
        inside = site.region
        if site.kind != "functional":
            inside = by_scope[site.output.scope]
        ends[site.output] = (site.input, [node for node in inside if node is not site.output])
    parts = incomplete_activations(graph, ends)
    return [replace(site, part_of=parts.get(site.output, ())) for site in sites]


def _is_internal(node: Node, modules: dict[str, nn.Module]) -> bool:
    """Return whether an activation is a part of one of this library's units or layers.

    A sigmoid in a gate is. A rectifier, such as those in CReLU, is an activation of its own.
    """
    if node.op in RECTIFIERS:
        return False
    path = node.scope[0]
    module = modules.get(path)
    # The path of a parent is that of the child without its last name.
    while module is not None and not isinstance(module, LeafModule):
        if not path:
            return False
        path = path.rpartition(".")[0]
        module = modules.get(path)
    if module is None:
        return False
    return not isinstance(module, UnitModule) or not _is_one_operator(module)


def _is_one_operator(unit: UnitModule) -> bool:
    """Return whether there is a kernel for a unit, so that its call is one operator."""
    return not unit.fusable or unit.fused_function is not None


def _module_call(
    node: Node,
    inside: Sequence[Node],
    modules: dict[str, nn.Module],
) -> tuple[Node, Node] | None:
    """Return input and output of the call of the module that ``node`` is in.

    The result is ``None`` if the module is not an elementwise function of one tensor.
    """
    path = node.scope[0]
    module = modules.get(path)
    if not path or module is None or any(True for _ in module.children()):
        return None
    # A weight matrix makes it a layer.
    if any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
        return None
    if len(inside) == 1 and node.op in GLUS:
        return node.inputs[0], node
    if any(member.op not in ELEMENTWISE | BROADCAST for member in inside):
        return None
    ends = _input_and_output(inside)
    return ends if ends is not None and ends[0].shape == ends[1].shape else None


def _is_of_one_module(
    found: Written,
    by_scope: Mapping[Scope, Sequence[Node]],
    modules: dict[str, nn.Module],
    unit_calls: Collection[Scope],
) -> bool:
    """Whether one module's code writes the activation, and is not one activation as a whole.

    Calls of activation modules that are children of it count as its code.
    """
    home = found.end.scope
    if home in unit_calls:
        return False
    if _module_call(found.end, by_scope[home], modules) is not None:
        return not any(is_activation(member.op) for member in found.region)
    for member in found.region:
        path = member.scope[0]
        if member.scope == home:
            continue
        inside = by_scope[member.scope]
        is_child = path.rpartition(".")[0] == home[0] and home in member.scopes
        if not is_child or len(inside) > 1 or _module_call(member, inside, modules) is None:
            return False
    return True


def _written_site(found: Written, orders: Mapping[Node, int]) -> SiteNodes:
    path, call = found.end.scope
    inner = []
    for member in found.region:
        if is_activation(member.op):
            home = member.scope[0] if member.scope != found.end.scope else ""
            inner.append((orders[member], member.op, home))
    order = inner[0][0] if inner else orders[found.end]
    return SiteNodes(
        path,
        call,
        "functional",
        found.op,
        found.root,
        found.end,
        order,
        region=found.region,
        inner=tuple(inner),
    )


def _input_and_output(inside: Sequence[Node]) -> tuple[Node, Node] | None:
    """Return the one tensor that enters ``inside`` and the one that leaves it.

    The result is ``None`` if there are more.
    """
    members = set(inside)
    sources: set[Node] = set()
    results: list[Node] = []
    for member in inside:
        for source in member.inputs:
            if source not in members and source.op != "parameter":
                sources.add(source)
        if not members.issuperset(member.users):
            results.append(member)
    if len(sources) != 1 or len(results) != 1:
        return None
    source = sources.pop()
    return (source, results[0]) if source.floating else None


def _unit_calls(
    by_scope: Mapping[Scope, Sequence[Node]],
    modules: dict[str, nn.Module],
    *,
    every: bool,
) -> dict[Scope, tuple[str, Node, Node]]:
    """Return name, input and output of each call of a unit that is not one activation operator.

    Args:
        by_scope: the nodes of each call.
        modules: the modules by path.
        every: whether they have the unit's name, besides gated linear units.
    """
    names: dict[type, str] = {unit.module: name for name, unit in registered_units().items()}
    calls: dict[Scope, tuple[str, Node, Node]] = {}
    for scope, inside in by_scope.items():
        module = modules.get(scope[0])
        name = names.get(type(module))
        if not scope[0] or module is None or name is None or any(module.children()):
            continue
        ends = _input_and_output(inside)
        single = len(inside) == 1 and is_activation(inside[0].op)
        if ends is None or single:
            continue
        keeps_shape = ends[0].shape == ends[1].shape
        rectifies = any(member.op in RECTIFIERS for member in inside)
        if isinstance(module, TwoBranchUnit) or (rectifies and not keeps_shape):
            calls[scope] = (name, *ends)
        elif keeps_shape:
            calls[scope] = (name if every else COMPOSITE, *ends)
    return calls


def _module_kind(path: str, modules: dict[str, nn.Module], calls: dict[str, int]) -> str:
    if calls.get(path, 1) > 1:
        return "reused"
    if _is_norm(modules[path.rpartition(".")[0]]):
        return "hidden-in-norm"
    return "module"


def _is_norm(module: nn.Module) -> bool:
    """Return whether the module itself scales channels, such as ``BatchNormAct2d`` of timm.

    A module that only contains a norm has no parameters or buffers of its own.
    """
    if "norm" not in type(module).__name__.lower():
        return False
    parameters = list(module.parameters(recurse=False))
    return bool(parameters) or any(True for _ in module.buffers(recurse=False))


def _calls_per_parent_call(graph: Graph) -> dict[str, int]:
    """Return the most calls of each module within one call of the module around it."""
    numbers: dict[tuple[Scope, str], set[int]] = defaultdict(set)
    for node in graph:
        parent: Scope = ("", 0)
        for path, call in node.scopes:
            numbers[parent, path].add(call)
            parent = (path, call)
    most: dict[str, int] = defaultdict(int)
    for (_, path), calls in numbers.items():
        most[path] = max(most[path], len(calls))
    return most
