"""Read a model by ``torch.export``."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import fx, nn

from gatewise.graph.trace.caching import cached
from gatewise.graph.trace.conversion import Leaf, convert
from gatewise.graph.trace.nodes import Graph, Scope
from gatewise.graph.unchanged import untouched

NOISY = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch._export",
    "torch.fx.experimental.proxy_tensor",
)


@cached(by_value=False)
def read_by_export(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, mode: str
) -> Graph:
    """The graph of ``model(*args, **kwargs)`` in ``mode``.

    Whatever torch.export raises is raised.
    """
    from torch.export.graph_signature import InputKind  # here: importing torch.export takes time

    with untouched(model), torch.no_grad(), _quiet(), without_stack_traces():
        model.train(mode == "train")
        program = torch.export.export(model, args, kwargs, strict=False)
    kinds = {
        InputKind.PARAMETER: "parameter",
        InputKind.BUFFER: "buffer",
        InputKind.USER_INPUT: "input",
    }
    leaves: dict[str, Leaf] = {}
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", "")
        leaves[name] = (kinds.get(spec.kind, "constant"), spec.target or name)
    return convert(
        program.graph_module,
        leaves,
        _scopes,
        mode=mode,
        reader="export",
        constants=program.constants,
    )


def _scopes(node: fx.Node) -> tuple[Scope, ...]:
    """Path and call number of every module around ``node``.

    The stack's keys end in ``@n`` from the second call on.
    """
    found = []
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, number = key.rpartition("@")
        found.append(
            (path.rpartition("@")[0] or path, int(number) if at and number.isdigit() else 0)
        )
    return tuple(found)


@contextmanager
def without_stack_traces() -> Iterator[None]:
    """A third of the time of an export goes into where each operator was called from, which nobody here reads."""
    settings: Any = getattr(fx, "config", None)  # torch 2.6 has no such setting
    before = getattr(settings, "do_not_emit_stack_traces", None)
    try:
        if before is not None:
            settings.do_not_emit_stack_traces = True
        yield
    finally:
        if before is not None:
            settings.do_not_emit_stack_traces = before


@contextmanager
def _quiet() -> Iterator[None]:
    """A model that cannot be exported is read in another way.

    The reader's own account of it is not for the user.
    """
    before = {name: logging.getLogger(name).level for name in NOISY}
    try:
        for name in before:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        with redirect_stderr(io.StringIO()):  # where the graph so far is printed
            yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
