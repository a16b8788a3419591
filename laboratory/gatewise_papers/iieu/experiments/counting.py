"""Count parameters and operations of a network on its graph."""

import torch
from torch import nn

from gatewise.graph import CONVOLUTIONS, Node, find_sites, node_operations, parameter_count

PRODUCTS = CONVOLUTIONS | {"linear", "addmm", "matmul", "mm", "bmm"}
MILLION, GIGA = 1e6, 1e9


def count(network: nn.Module, size: int) -> dict[str, int]:
    """Return ``parameters``, and ``products`` and ``operations`` of a forward pass.

    A product is a multiply-add in a convolution or a linear layer, which most papers call a FLOP.
    ``operations`` are as in :func:`gatewise.cost`: two for each product, and one for each element
    of every other operator, so that activations are counted too.

    Args:
        network: the network.
        size: height and width of the one image it reads.
    """
    sites = find_sites(network, torch.zeros(1, 3, size, size), modes=("eval",))
    graph = sites.readings["eval"].graph
    return {
        "parameters": parameter_count(network),
        "products": round(sum(map(_products, graph))),
        "operations": round(sum(map(node_operations, graph))),
    }


def _products(node: Node) -> float:
    """Return the multiply-adds of a node."""
    return node_operations(node) / 2 if node.op in PRODUCTS else 0.0


def agrees_as_printed(ours: float, printed: float) -> bool:
    """Return whether a number is the printed one after rounding to one decimal."""
    return round(ours, 1) == printed
