"""Layers that are called by another method than their activation: where one calls the other."""

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
    """``producer`` with the place at which the method of ``call`` calls its method.

    It is returned as it is if there is not exactly one such place.
    """
    if _owner(producer) != _owner(call) or producer.method == call.method:
        return producer
    if producer.method.startswith("__") or producer.shared:
        return producer
    nested = any(site.code.rpartition(".")[2] != site.method for site in (producer, call))
    try:
        recursive = [] if nested else _calls_of(_source(model, producer), producer.method)
        places = _calls_of(_source(model, call), producer.method)
    except Unreadable:
        return producer
    if len(places) != 1 or recursive:
        return producer
    return replace(producer, through=places[0])


def _owner(call: CallSite) -> tuple[str, str, int]:
    return call.owner, call.defined_in, call.call


def _source(model: nn.Module, call: CallSite) -> Source:
    kind = type(model.get_submodule(call.owner))
    home = next((base for base in kind.__mro__ if name_of(base) == call.defined_in), None)
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
    positions = []
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
        positions.append(position)
    return positions
