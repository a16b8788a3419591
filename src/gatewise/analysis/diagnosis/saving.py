"""What CReLU at half width would save, by arithmetic on the site graph.

Surgery plans it in full; this is its sum.

A convolution before CReLU at half width keeps half of its filters, a norm between them half of its
channels, and the layers after it read as many channels as before: half of the filters, each with
its phases.
"""

import math
from collections.abc import Collection
from dataclasses import dataclass

from gatewise.graph import CHANNEL_NORMS, CONVOLUTIONS, ELEMENTWISE, Found, Node, Reading


@dataclass(frozen=True)
class Saving:
    """One site where CReLU could stand, the layer before it, and the parameters that half of its filters are."""

    site: str
    layer: str
    parameters: int


def crelu_savings(reading: Reading, layers: Collection[str]) -> list[Saving]:
    """For each ReLU that one of ``layers``, and nothing else, feeds."""
    found = []
    for name, site in reading.found.items():
        chain = _chain(site) if site.op == "relu" else []
        if chain and chain[0].scope[0] in layers and _can_be_halved(chain[0]):
            found.append(
                Saving(name, chain[0].scope[0], sum(_parameters(node) for node in chain) // 2)
            )
    return found


def _chain(site: Found) -> list[Node]:
    """The convolution before the site and the norms between, if each is read by the next alone.

    Else nothing.
    """
    node, chain = site.input, []
    while True:
        if len(node.users) != 1:
            return []
        if node.op in CONVOLUTIONS:
            return [node, *chain]
        if node.op in CHANNEL_NORMS:
            chain.append(node)
        elif node.op not in ELEMENTWISE:
            return []
        node = node.inputs[0]


def _can_be_halved(conv: Node) -> bool:
    weight = conv.tensor("weight")
    even = weight is not None and weight.shape is not None and weight.shape[0] % 2 == 0
    return even and conv.arguments.get("groups", 1) == 1


def _parameters(node: Node) -> int:
    return sum(math.prod(each.shape or (0,)) for each in node.inputs if each.op == "parameter")
