"""A layer that is called by another method than its activation is.

Where the one method calls the other.
"""

import ast
from dataclasses import replace

from torch import nn

from gatewise.surgery.calls import (
    CallSite,
    Source,
    Unreadable,
    layers_of,
    loop_around,
    name_of,
    scope,
    source_of,
)


def through_method(model: nn.Module, producer: CallSite, call: CallSite) -> CallSite:
    """``producer`` with the place at which the method of ``call`` calls its method, if there is just one such place."""
    same_owner = (producer.owner, producer.defined_in, producer.call) == (
        call.owner,
        call.defined_in,
        call.call,
    )
    if (
        not same_owner
        or producer.method == call.method
        or producer.method.startswith("__")
        or producer.shared
    ):
        return producer
    nested = any(each.code.rpartition(".")[2] != each.method for each in (producer, call))
    try:
        places = [] if nested else _calls_of(_source(model, producer), producer.method)
        own = _calls_of(_source(model, call), producer.method)
    except Unreadable:
        return producer
    return replace(producer, through=own[0]) if len(own) == 1 and not places else producer


def _source(model: nn.Module, call: CallSite) -> Source:
    kind = type(model.get_submodule(call.owner))
    home = next((each for each in kind.__mro__ if name_of(each) == call.defined_in), None)
    if home is None:
        raise Unreadable("source_changed")
    for function in layers_of(vars(home).get(call.method), f"{home.__qualname__}.{call.method}"):
        source = source_of(function)
        if source.text.digest == call.digest and source.ancestors(call.position):
            if any(
                isinstance(node, ast.Yield | ast.YieldFrom | ast.Await)
                for node in ast.walk(source.node)
            ):
                raise Unreadable("not_recognised")
            return source
    raise Unreadable("source_changed")


def _calls_of(source: Source, method: str) -> list[tuple[int, int, int, int]]:
    """Where the method of ``source`` calls ``self.METHOD(...)`` itself, outside of loops."""
    own_name = source.node.args.args[0].arg if source.node.args.args else ""
    found = []
    for node in ast.walk(source.node):
        f = getattr(node, "func", None)
        if not isinstance(node, ast.Call) or not isinstance(f, ast.Attribute) or f.attr != method:
            continue
        if not isinstance(f.value, ast.Name) or f.value.id != own_name:
            continue
        position = (node.lineno, node.end_lineno or 0, node.col_offset, node.end_col_offset or 0)
        path = source.ancestors(position)
        if scope(path) is not source.node or loop_around(path).inside:
            raise Unreadable("not_recognised")
        found.append(position)
    return found
