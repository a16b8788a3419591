"""Put units into traced graphs of torch.fx, by an edit of the graph itself.

The methods of such a module are made from its graph, again and again: text that was rewritten
would be lost when the module is copied, saved or compiled anew.
"""

import copy
from collections.abc import Sequence

from torch import fx, nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import HOLDER, CallSite, CallUnits, graph_nodes
from gatewise.surgery.rewrite.transaction import Change, Transaction


def edit_graph(work: Transaction, path: str, calls: Sequence[tuple[CallSite, nn.Module]]) -> None:
    """Let the traced graph at ``path`` call units in place of activations.

    Args:
        work: keeps what is needed to roll back.
        path: of the module.
        calls: the calls, each with its unit.
    """
    owner = work.model.get_submodule(path)
    assert isinstance(owner, fx.GraphModule)  # noqa: S101  the recorder has seen it
    graph = copy.deepcopy(owner.graph)
    nodes = {node.name: node for node in graph.nodes}
    earlier = owner._modules.get(HOLDER)
    if hasattr(owner, HOLDER) and not isinstance(earlier, CallUnits):
        raise ArgumentError(f"swap: {path or 'the model'} has an attribute {HOLDER!r} of its own")
    holder = CallUnits()
    for name, unit in earlier.named_children() if earlier is not None else ():
        holder.add_module(name, unit)
    slots: dict[str, str] = {}
    for call, unit in calls:
        name, *source_name = graph_nodes(call.form)
        if name in slots:
            continue
        slots[name] = f"s{len(list(holder.children()))}"
        holder.add_module(slots[name], unit)
        node = nodes[name]
        source = node.args[0] if node.args else next(iter(node.kwargs.values()))
        if source_name:
            source = nodes[source_name[0]]
        with graph.inserting_before(node):
            new = graph.call_module(f"{HOLDER}.{slots[name]}", (source,))
        node.replace_all_uses_with(new)
        unread = [node]
        while unread:  # the call, and those of an activation of several calls that it alone reads
            last = unread.pop()
            if not last.users and last.op != "placeholder":
                unread += last.all_input_nodes if source_name else []
                graph.erase_node(last)
    work.changes.append(Change(path, HOLDER, earlier, "module"))
    owner.add_module(HOLDER, holder.train(owner.training))
    work.replace(path, "graph", graph, "attribute")
