"""The torch functions that are activations, from the operator table, and their calls in graphs."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node
from torch.nn import functional as F

from gatewise.graph import OPERATORS, Reading, SiteNodes
from gatewise.surgery.calls.call_site import CallSite
from gatewise.units import UnitModule

# By the name of the function: the names of the arguments after the input, in torch's order.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    operator.functions[0]: operator.parameters
    for operator in OPERATORS.values()
    if operator.functions
}


TORCHS_OWN = "torch.nn.modules.activation"  # defines the activation classes of torch


class Activation(NamedTuple):
    """The operator of a torch function, and whether the function writes into its input."""

    op: str
    inplace: bool


def _every_name() -> dict[Callable[..., Any], Activation]:
    """Return the functions of torch that are activations, under all their names."""
    table: dict[Callable[..., Any], Activation] = {}
    for operator in OPERATORS.values():
        for name in operator.functions:
            for home in (F, torch, Tensor, torch.special):
                for suffix in ("", "_"):
                    function = getattr(home, name + suffix, None)
                    if function is not None:
                        table[function] = Activation(operator.functions[0], bool(suffix))
    return table


FUNCTIONS: Mapping[Callable[..., Any], Activation] = _every_name()


def activation(function: object) -> Activation | None:
    """Return what ``function`` is, or ``None`` if it is no activation of the table."""
    try:
        return FUNCTIONS.get(function)  # type: ignore[arg-type]
    except TypeError:  # not hashable, so no function of torch
        return None


def arguments_of(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of ``op`` by name, without the input and ``inplace``."""
    named = dict(zip(PARAMETERS[op], args[1:], strict=False)) | dict(kwargs)
    for name in ("input", "inplace", "self"):
        named.pop(name, None)
    return named


def may_be_activation(module: nn.Module) -> bool:
    """Whether a call of ``module`` may be recorded as one activation.

    It must be a unit, or a leaf without buffers and, unless torch defines it as an activation,
    without parameters. A norm that contains an activation has both: it is the owner of a functional
    call.
    """
    if isinstance(module, UnitModule):
        return True
    if next(module.children(), None) is not None or next(module.buffers(), None) is not None:
        return False
    return is_torchs_own(module) or next(module.parameters(), None) is None


def is_torchs_own(module: nn.Module) -> bool:
    """Whether ``module`` is an activation class of torch, which calls one function of the table."""
    return type(module).__module__ == TORCHS_OWN


NODE = "node "  # the form of such a call begins with it; the name of the node follows
HOME = "torch.fx:GraphModule"


def is_graph_form(form: str) -> bool:
    """Whether ``form`` is that of a call in a traced graph."""
    return form.startswith(NODE)


def graph_calls(model: nn.Module, reading: Reading) -> dict[str, CallSite]:
    """Return the call of each functional or reused site that a traced graph makes, by name."""
    owners = {
        path: module for path, module in model.named_modules() if isinstance(module, GraphModule)
    }
    if not owners:
        return {}
    functional: dict[tuple[str, int], list[tuple[str, SiteNodes]]] = {}
    calls: dict[str, CallSite] = {}
    for name, site in reading.site_nodes.items():
        if site.kind == "functional" and site.path in owners:
            functional.setdefault((site.path, site.call), []).append((name, site))
        elif site.kind == "reused" and (home := _graph_around(site.path, owners)) is not None:
            target = site.path[len(home) :].lstrip(".")
            nodes = [node for node in owners[home].graph.nodes if _calls(node, target)]
            if nodes:
                node = nodes[site.call % len(nodes)]
                number = site.call // len(nodes)
                calls[name] = _call(owners[home], home, number, node, site)
    for (path, number), sites in functional.items():
        nodes = [node for node in owners[path].graph.nodes if _function_of(node) is not None]
        sites = sorted(sites, key=lambda item: item[1].order)
        if len(nodes) != len(sites):
            continue
        for (name, site), node in zip(sites, nodes, strict=True):
            calls[name] = _call(owners[path], path, number, node, site)
    return calls


def _graph_around(path: str, owners: Mapping[str, GraphModule]) -> str | None:
    """Return the path of the innermost traced graph around a module."""
    homes = [home for home in owners if not home or path.startswith(f"{home}.")]
    return max(homes, key=len, default=None)


def _calls(node: Node, target: str) -> bool:
    return node.op == "call_module" and node.target == target


def _function_of(node: Node) -> Any:
    """Return the activation that a node calls as a function or a method, if it is one."""
    if node.op == "call_function":
        return activation(node.target)
    if node.op == "call_method":
        return activation(getattr(Tensor, str(node.target), None))
    return None


def _call(owner: GraphModule, path: str, number: int, node: Node, site: SiteNodes) -> CallSite:
    what = _function_of(node)
    inplace = node.kwargs.get("inplace") is True or (what is not None and what.inplace)
    source = node.args[0] if node.args else next(iter(node.kwargs.values()), None)
    read_by_others = isinstance(source, Node) and len(source.users) > 1
    code = owner.code
    return CallSite(
        owner=path,
        call=number,
        method="forward",
        defined_in=HOME,
        code="forward",
        file=f"the graph of {path or 'the model'}",
        digest=hashlib.sha256(code.encode()).hexdigest(),
        position=(list(owner.graph.nodes).index(node), 0, 0, 0),
        op=site.op,
        form=f"{NODE}{node.name}",
        module=site.path if site.kind == "reused" else None,
        reused=site.kind == "reused",
        shared=number > 0,
        aliased=inplace and read_by_others,
        refused="aliased" if inplace and read_by_others else None,
    )
