"""The sizes a plan expects of every layer's output, and whether the changed model has them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from gatewise.graph import CHANNEL_NORMS, CONVOLUTIONS, LAST_NORMS, TRANSPOSED, Graph, Node
from gatewise.surgery.propagate.maps import ChannelMap
from gatewise.surgery.propagate.sweep import Maps

Shape = tuple[int, ...]
LAYERS = CONVOLUTIONS | TRANSPOSED | CHANNEL_NORMS | LAST_NORMS | {"linear"}


def expected_sizes(graph: Graph, maps: Mapping[Node, Maps]) -> dict[str, Shape]:
    """The output's shape of every layer module that is one operator and is called once, after the change."""
    inside = Counter(
        path for node in graph for path, _ in node.scopes
    )  # a norm may hold an activation, too
    layers = [
        node
        for node in graph
        if node.op in LAYERS and node.shape is not None and inside[node.scope[0]] == 1
    ]
    return {
        node.scope[0]: _after(node.shape or (), maps.get(node)) for node in layers if node.scope[0]
    }


def _after(shape: Shape, change: Maps | None) -> Shape:
    if not isinstance(change, ChannelMap):
        return shape
    return (*shape[: change.dim], len(change), *shape[change.dim + 1 :])


@contextmanager
def watching_sizes(
    model: nn.Module, expected: Mapping[str, Shape], wrong: list[str]
) -> Iterator[None]:
    """While it lasts, every layer whose output has another shape than expected is written down in ``wrong``."""
    handles = []

    def look(path: str, output: Any) -> None:
        if isinstance(output, Tensor) and tuple(output.shape) != expected[path]:
            wrong.append(f"{path} makes {tuple(output.shape)}, expected {expected[path]}")

    layers = dict(model.named_modules()) if expected else {}
    try:
        for path in expected:
            layer = layers[path]
            handles.append(
                layer.register_forward_hook(lambda _, __, output, path=path: look(path, output))
            )
        yield
    finally:
        for handle in handles:
            handle.remove()
