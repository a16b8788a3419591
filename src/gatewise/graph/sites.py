"""The activation sites of a graph: which nodes are one, and whose call it is."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import nn

from gatewise.graph.ops import BROADCAST, ELEMENTWISE, LEAVES, activation_of
from gatewise.graph.trace import Graph, Node, Scope
from gatewise.units import registered_units

COMPOSITE = "composite"  # an activation made of several operations, such as a GELU written out


@dataclass(frozen=True)
class Found:
    """One site in one graph: what goes in, what comes out, and the activation calls inside."""

    path: str  # of the activation's module; of the owner, if the call is a functional one
    call: int
    kind: str  # "module", "functional", "reused" or "hidden-in-norm"
    op: str
    input: Node
    output: Node
    # which activation call of the whole forward this is: the first of them, if it is made of
    # several
    order: int


def activation_sites(graph: Graph, model: nn.Module, *, units: bool = False) -> list[Found]:
    """Every activation call, in the order of the calls.

    With ``units``, calls of this library's units with as many outputs as inputs are sites too,
    whatever operators they are made of.
    """
    modules = dict(model.named_modules())
    by_scope: dict[Scope, list[Node]] = defaultdict(list)
    for node in graph:
        if node.op not in LEAVES and node.op != "output":
            by_scope[node.scope].append(node)
    calls = _calls_per_parent_call(graph)
    found, done = [], set()
    names = _units_by_scope(by_scope, modules) if units else {}
    activations = [
        node
        for node in graph
        if (activation_of(node.op) and node.floating) or node.scope in names
    ]
    for order, node in enumerate(activations):
        if node.scope in done:
            continue
        if node.scope in names:
            name, whole = names[node.scope]
            done.add(node.scope)
            found.append(replace(_module_site(whole[1], whole, order, modules, calls), op=name))
            continue
        whole = _as_module_call(node, by_scope[node.scope], modules)
        if whole is None:
            found.append(_functional(node, order))
        else:
            done.add(node.scope)
            found.append(_module_site(node, whole, order, modules, calls))
    return found


def _as_module_call(
    node: Node, inside: Sequence[Node], modules: dict[str, nn.Module]
) -> tuple[Node, Node] | None:
    """Input and output of the module call that ``node`` is in, if it is an elementwise function of one tensor."""
    path = node.scope[0]
    module = modules.get(path)
    if not path or module is None or any(True for _ in module.children()):
        return None
    if any(parameter.dim() > 1 for parameter in module.parameters(recurse=False)):
        return None
    if any(each.op not in ELEMENTWISE | BROADCAST for each in inside):
        return None
    return _single_input_and_output(inside)


def _single_input_and_output(inside: Sequence[Node]) -> tuple[Node, Node] | None:
    """The one tensor that enters ``inside`` and the one that leaves it, if their shapes agree."""
    members = set(inside)
    enter = {
        each
        for one in inside
        for each in one.inputs
        if each not in members and each.op not in ("parameter",)
    }
    leave = [one for one in inside if any(user not in members for user in one.users)]
    if len(enter) != 1 or len(leave) != 1:
        return None
    source = next(iter(enter))
    return (source, leave[0]) if source.shape == leave[0].shape and source.floating else None


def _units_by_scope(
    by_scope: Mapping[Scope, Sequence[Node]], modules: dict[str, nn.Module]
) -> dict[Scope, tuple[str, tuple[Node, Node]]]:
    """Name, input and output of each call of a unit that is not a single activation operator."""
    names = {spec.module: name for name, spec in registered_units().items()}
    units: dict[Scope, tuple[str, tuple[Node, Node]]] = {}
    for scope, inside in by_scope.items():
        module = modules.get(scope[0])
        name = names.get(type(module))
        single = len(inside) == 1 and activation_of(inside[0].op)
        if not scope[0] or name is None or module is None or single or any(module.children()):
            continue
        whole = _single_input_and_output(inside)
        if whole is not None:
            units[scope] = (name, whole)
    return units


def _module_site(
    node: Node,
    whole: tuple[Node, Node],
    order: int,
    modules: dict[str, nn.Module],
    calls: dict[str, int],
) -> Found:
    path, call = node.scope
    single = whole == (node.inputs[0], node)
    op = activation_of(node.op) if single else COMPOSITE
    kind = "module"
    if calls.get(path, 1) > 1:
        kind = "reused"
    elif _is_norm(modules[path.rpartition(".")[0]]):
        kind = "hidden-in-norm"
    return Found(path, call, kind, op or COMPOSITE, *whole, order)


def _is_norm(module: nn.Module) -> bool:
    """Whether the module itself scales channels, as timm's BatchNormAct2d does, and not only modules inside it."""
    own = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    return "norm" in type(module).__name__.lower() and bool(own)


def _functional(node: Node, order: int) -> Found:
    path, call = node.scope
    return Found(
        path, call, "functional", activation_of(node.op) or node.op, node.inputs[0], node, order
    )


def _calls_per_parent_call(graph: Graph) -> dict[str, int]:
    """The most calls of each module within one call of the module around it."""
    inner: dict[tuple[Scope, str], set[int]] = defaultdict(set)
    for node in graph:
        for parent, (path, call) in zip((("", 0), *node.scopes), node.scopes, strict=False):
            inner[(parent, path)].add(call)
    most: dict[str, int] = defaultdict(int)
    for (_, path), numbers in inner.items():
        most[path] = max(most[path], len(numbers))
    return most
