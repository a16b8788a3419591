"""Read a model by ``torch.export``, without running it on values."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any

import torch
from torch import fx, nn

from gatewise.graph.trace.caching import cached
from gatewise.graph.trace.conversion import Leaf, convert
from gatewise.graph.trace.locking import one_at_a_time
from gatewise.graph.trace.nodes import Graph, Scope
from gatewise.graph.trace.whole_slices import WholeSlices
from gatewise.graph.unchanged import untouched

# Loggers that report a model which cannot be exported. It is then read in another way.
LOGGERS = (
    "torch.fx.experimental.symbolic_shapes",
    "torch.export",
    "torch._export",
    "torch.fx.experimental.proxy_tensor",
    "torch._subclasses.fake_tensor",
)


@one_at_a_time
@cached(by_value=False)
def read_by_export(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    mode: str,
) -> Graph:
    """Return the graph of ``model(*args, **kwargs)`` in ``mode``; raise what export raises."""
    if any(isinstance(module, fx.GraphModule) for module in (*model.modules(),)[1:]):
        raise NotImplementedError("it does not say which calls a traced graph inside a model makes")
    from torch.export.graph_signature import InputKind  # here: importing torch.export takes time

    with untouched(model), torch.no_grad(), _quiet(), without_stack_traces():
        model.train(mode == "train")
        with WholeSlices():
            program = torch.export.export(model, args, kwargs, strict=False)
    kinds = {
        InputKind.PARAMETER: "parameter",
        InputKind.BUFFER: "buffer",
        InputKind.USER_INPUT: "input",
    }
    # Constants that export lifted out of the code, and anything else, count as constants.
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
    """Return path and call number of every module around ``node``, outermost first.

    The keys of torch's module stack end in ``@n`` from the second call on.
    """
    scopes = []
    for key, (path, _) in (node.meta.get("nn_module_stack") or {}).items():
        _, at, number = key.rpartition("@")
        call = int(number) if at and number.isdigit() else 0
        scopes.append((path.rpartition("@")[0] or path, call))
    return tuple(scopes)


@contextmanager
def without_stack_traces() -> Iterator[None]:
    """Let torch not record where each operator was called from.

    Nothing here reads that, and it takes a third of the time of an export.
    """
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
    """Hide what torch logs and prints about a model that cannot be exported."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    try:
        for name in levels:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        with redirect_stderr(io.StringIO()):  # torch prints the unfinished graph there
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
