"""What CReLU at half width would save, by arithmetic on the graph of the model.

A convolution before CReLU at half width keeps half of its filters, and a norm between them half of
its channels. The layers after it read as many channels as before: half of the filters, each with
both signs. Surgery plans the change in full; this is only the sum.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from gatewise.graph import (
    CHANNEL_NORMS,
    CONVOLUTIONS,
    ELEMENTWISE,
    Node,
    Reading,
    SiteNodes,
    node_operations,
)


@dataclass(frozen=True)
class Saving:
    """What CReLU at half width saves at one site.

    Attributes:
        site: The name of the site.
        layer: The convolution before it.
        parameters: Parameters saved.
        operations: Operations saved in one run on the example of the graph.
    """

    site: str
    layer: str
    parameters: int
    operations: float


def crelu_savings(reading: Reading, layers: Collection[str]) -> list[Saving]:
    """Return the saving at every ReLU that reads one of some layers, and nothing else.

    Args:
        reading: The graph of the model.
        layers: The names of the layers.
    """
    savings = []
    for name, site in reading.site_nodes.items():
        chain = _chain(site) if site.op == "relu" else []
        if not chain or chain[0].scope[0] not in layers or not _can_be_halved(chain[0]):
            continue
        parameters = sum(map(parameters_read, chain)) // 2
        operations = sum(map(node_operations, chain)) / 2
        savings.append(Saving(name, chain[0].scope[0], parameters, operations))
    return savings


def _chain(site: SiteNodes) -> list[Node]:
    """Return the convolution before a site and the norms between them.

    The list is empty if anything else reads one of their outputs.
    """
    norms: list[Node] = []
    node = site.input
    while len(node.users) == 1:
        if node.op in CONVOLUTIONS:
            return [node, *norms]
        if node.op in CHANNEL_NORMS:
            norms.append(node)
        elif node.op not in ELEMENTWISE:
            return []
        node = node.inputs[0]
    return []


def _can_be_halved(conv: Node) -> bool:
    """Whether a convolution has an even number of filters in one group."""
    weight = conv.tensor("weight")
    # Half of an odd number of filters is not possible.
    even = weight is not None and weight.shape is not None and weight.shape[0] % 2 == 0
    return even and conv.arguments.get("groups", 1) == 1


def parameters_read(node: Node) -> int:
    """Return the number of parameters that an operator reads."""
    count = 0
    for source in node.inputs:
        if source.op == "parameter":
            count += math.prod(source.shape or (0,))
    return count
