"""Calls of activations in traced graphs of torch.fx, whose source text is made from the graph."""

import hashlib
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule, Node

from gatewise.graph import Reading, SiteNodes
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.functions import activation

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
