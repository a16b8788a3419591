"""Calls of activations in traced graphs of torch.fx."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn
from torch.fx import GraphModule, Node

from gatewise import graph
from gatewise.graph import Reading, SiteNodes
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.functions import activation, same_activation
from gatewise.surgery.calls.reads import WHOLE, plain_name

NODE = "node "  # the form of such a call begins with it; the name of the node follows
HOME = "torch.fx:GraphModule"


def is_graph_form(form: str) -> bool:
    """Whether ``form`` is that of a call in a traced graph."""
    return form.removeprefix(f"{WHOLE} ").startswith(NODE)


def graph_nodes(form: str) -> list[str]:
    """Return the names in a form of a traced graph: the call's, and that of its input if given."""
    return form.removeprefix(f"{WHOLE} ").split(" ")[1:]


def graph_calls(model: nn.Module, reading: Reading) -> dict[str, CallSite]:
    """Return the call of each functional or reused site that a traced graph makes, by name."""
    owners = {
        path: module for path, module in model.named_modules() if isinstance(module, GraphModule)
    }
    if not owners:
        return {}
    calls: dict[str, CallSite] = {}
    for name, site in reading.site_nodes.items():
        if site.kind == "functional" and site.path in owners:
            owner = owners[site.path]
            node = _matching(owner, reading, site.output)
            if node is None:
                continue
            call = _call(owner, site.path, site.call, node, site)
            if site.region:
                source = _source_of(owner, reading, site)
                form = f"{WHOLE} {call.form} {source}"
                call = replace(call, form=form, refused=None if source else "not_recognised")
            calls[name] = call
        elif site.kind == "reused" and (home := _graph_around(site.path, owners)) is not None:
            target = site.path[len(home) :].lstrip(".")
            nodes = [node for node in owners[home].graph.nodes if _calls(node, target)]
            if nodes:
                node = nodes[site.call % len(nodes)]
                number = site.call // len(nodes)
                calls[name] = _call(owners[home], home, number, node, site)
    return calls


def _matching(owner: GraphModule, reading: Reading, wanted: graph.Node) -> Node | None:
    """Return the node of a traced graph that makes a call of the reading, by order."""
    scope = wanted.scope
    read = [node for node in reading.graph if node.scope == scope and node.op == wanted.op]
    nodes = [node for node in owner.graph.nodes if same_activation(wanted.op, _operator_of(node))]
    return nodes[read.index(wanted)] if len(nodes) == len(read) else None


def _source_of(owner: GraphModule, reading: Reading, site: SiteNodes) -> Node | None:
    """Return the node of a traced graph that is the input of an activation of several calls."""
    for member in site.region:
        tensors = [value for value in member.arguments.values() if value in member.inputs]
        if tensors == [site.input] and member.scope == site.output.scope:
            node = _matching(owner, reading, member)
            sources = node.all_input_nodes if node is not None else []
            return sources[0] if len(sources) == 1 else None
    return None


def _operator_of(node: Node) -> str:
    """Return the name of the operator that a node of a traced graph calls; empty if of none."""
    function = node.target
    if node.op == "call_method":
        function = getattr(Tensor, str(node.target), None)
    if node.op not in ("call_function", "call_method"):
        return ""
    what = activation(function)
    return what.op if what is not None else plain_name(function)


def _graph_around(path: str, owners: Mapping[str, GraphModule]) -> str | None:
    """Return the path of the innermost traced graph around a module."""
    homes = [home for home in owners if not home or path.startswith(f"{home}.")]
    return max(homes, key=len, default=None)


def _calls(node: Node, target: str) -> bool:
    return node.op == "call_module" and node.target == target


def _call(owner: GraphModule, path: str, number: int, node: Node, site: SiteNodes) -> CallSite:
    function = getattr(Tensor, str(node.target), None) if node.op == "call_method" else node.target
    what = activation(function)
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
