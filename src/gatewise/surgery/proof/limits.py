"""What a proof leaves out where it would take too long or too much memory.

Where a pass over the example is long, most of the proof runs on the first of the batch, and of
large images on the middle. Large models are compared without copies of all weights, and with the
gradients of the smaller weights.
"""

from collections import Counter

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from gatewise.graph import example_tensors
from gatewise.surgery.proof.running import LARGE, Arguments, first_of

MUCH = 2e9  # operations of one pass, above which most of the proof runs on a part of the example
FIRST = "the first of the batch"
SIDE = 56  # pixels of the middle; in smaller images, batch norm often cannot train on the last maps
MANY_BYTES = 1 << 27  # of weights, from which a model is large
SHARE = 4  # gradients of at most one in so many weights of a large model are computed


def parts(example: Arguments, operations: int) -> list[tuple[Arguments, str]]:
    """Return the parts to try, each with its name. The last one is the whole example, unnamed.

    Args:
        example: The example.
        operations: The operations of one pass on it.
    """
    whole = (example, "")
    first = first_of(example)
    if operations <= MUCH or first is example:
        return [whole]
    middle = tree_map_only(Tensor, _middle, first)
    pairs = zip(example_tensors(middle), example_tensors(first), strict=True)
    if all(one is other for one, other in pairs):  # there is no large image
        return [(first, FIRST), whole]
    return [(middle, f"the middle of {FIRST}"), (first, FIRST), whole]


def _middle(value: Tensor) -> Tensor:
    """Return the middle of an image ``(N, C, H, W)`` that is at least twice as large."""
    if value.dim() != 4 or min(value.shape[2:]) < 2 * SIDE:
        return value
    height, width = ((size - SIDE) // 2 for size in value.shape[2:])
    return value[:, :, height : height + SIDE, width : width + SIDE].contiguous()


def is_large(model: nn.Module) -> bool:
    """Whether copies of all weights would take gigabytes."""
    return sum(parameter.nbytes for parameter in model.parameters()) > MANY_BYTES


def largest_gradient(model: nn.Module) -> int:
    """Return the most entries of a weight whose gradient is compared."""
    if not is_large(model):
        return LARGE
    sizes = Counter(parameter.numel() for parameter in model.parameters())
    entries = sum(size * count for size, count in sizes.items())
    total = largest = 0
    for size in sorted(sizes):
        total += size * sizes[size]
        if total > entries / SHARE:
            break
        largest = size
    return largest
