"""What a proof leaves out where it would take too long or too much memory.

Where a pass over the example is long, most of the proof runs on the first of the batch. Large
models are compared without copies of all weights, and with the gradients of the smaller weights.
"""

from collections import Counter

from torch import nn

from gatewise.surgery.proof.running import LARGE, Arguments, first_of

MUCH = 2e9  # operations of one pass, above which most of the proof runs on a part of the example
FIRST = "the first of the batch"
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
    return [whole] if operations <= MUCH or first is example else [(first, FIRST), whole]


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
