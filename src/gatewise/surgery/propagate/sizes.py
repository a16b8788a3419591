"""The output shape that a plan expects of every layer, and a check of the changed model."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from gatewise.graph import CHANNEL_NORMS, CONVOLUTIONS, LAST_NORMS, TRANSPOSED, Graph, Node
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Maps

Shape = tuple[int, ...]
CHECKED_OPS = CONVOLUTIONS | TRANSPOSED | CHANNEL_NORMS | LAST_NORMS | {"linear"}


def expected_sizes(graph: Graph, maps: Mapping[Node, Maps]) -> dict[str, Shape]:
    """Return the expected output shape of layer modules, by path.

    Only a module that runs one operator, and runs once, is listed: the output of any other module
    need not be the output of the operator. Some norms, for example, contain an activation.
    """
    operators = Counter(path for node in graph for path, _ in node.scopes)
    sizes: dict[str, Shape] = {}
    for node in graph:
        path = node.scope[0]
        if not path or operators[path] != 1 or node.op not in CHECKED_OPS or node.shape is None:
            continue
        change = maps.get(node)
        sizes[path] = node.shape
        if isinstance(change, ChannelMap):
            before, after = node.shape[: change.dim], node.shape[change.dim + 1 :]
            sizes[path] = (*before, len(change), *after)
    return sizes


@contextmanager
def watching_sizes(
    model: nn.Module, expected: Mapping[str, Shape], wrong: list[str]
) -> Iterator[None]:
    """Within this context, append a message to ``wrong`` for every output of another shape.

    Args:
        model: The changed model, which the caller runs within the context.
        expected: The shapes from :func:`expected_sizes`.
        wrong: The list that collects the messages.
    """

    def check(path: str, output: Any) -> None:
        if isinstance(output, Tensor) and tuple(output.shape) != expected[path]:
            wrong.append(f"{path} makes {tuple(output.shape)}, expected {expected[path]}")

    handles = []
    try:
        for path in expected:
            layer = model.get_submodule(path)
            handles.append(
                layer.register_forward_hook(lambda _, __, output, path=path: check(path, output))
            )
        yield
    finally:
        for handle in handles:
            handle.remove()
