"""The rules of all operators: what each does to a changed tensor, and how each makes one.

An operator that is not in ``FORWARD_RULES`` is refused. So is a tensor that must change but is made
by an operator that is not in ``BACKWARD_RULES``.
"""

from gatewise.graph import (
    BROADCAST,
    CHANNEL_NORMS,
    CONVOLUTIONS,
    CUTS,
    ELEMENTWISE,
    LAST_NORMS,
    MOVES,
    POOLS,
    RESHAPES,
    SPATIAL,
    SPLITS,
    Kind,
    operators_of,
)
from gatewise.graph import TRANSPOSED as TRANSPOSED_CONVOLUTIONS
from gatewise.surgery.propagate import backward_rules as backward
from gatewise.surgery.propagate import rules_einsum
from gatewise.surgery.propagate import rules_layers as layers
from gatewise.surgery.propagate import rules_meet as meet
from gatewise.surgery.propagate import rules_shapes as shapes
from gatewise.surgery.propagate.sweep import BackwardRule, ForwardRule

PADS = operators_of(Kind.PAD)
REDUCTIONS = operators_of(Kind.REDUCTION)
NORMALISATIONS = ("softmax", "_softmax", "log_softmax", "cumsum")
CHUNKS = ("chunk", "unsafe_chunk")

FORWARD_RULES: dict[str, ForwardRule] = {
    **dict.fromkeys(ELEMENTWISE | (SPATIAL - PADS), shapes.passes),
    **dict.fromkeys(PADS, shapes.pads),
    **dict.fromkeys(BROADCAST, meet.meets),
    **dict.fromkeys(CONVOLUTIONS, layers.convolution),
    **dict.fromkeys(TRANSPOSED_CONVOLUTIONS, layers.transposed_convolution),
    **dict.fromkeys(LAST_NORMS, layers.last_norm),
    **dict.fromkeys(MOVES, shapes.moves),
    **dict.fromkeys(RESHAPES, shapes.reshapes),
    **dict.fromkeys(REDUCTIONS, shapes.reduces),
    **dict.fromkeys(NORMALISATIONS, shapes.normalises),
    **dict.fromkeys(CUTS - {"index", "gather"}, shapes.cuts),
    **dict.fromkeys(("expand", "expand_as"), shapes.expands),
    **dict.fromkeys(SPLITS, shapes.splits),
    **dict.fromkeys(CHUNKS, shapes.chunks),
    **dict.fromkeys(("matmul", "mm"), layers.product),
    **dict.fromkeys(("bmm", "baddbmm", "scaled_dot_product_attention"), shapes.attends),
    **dict.fromkeys(("parameter", "buffer"), meet.leaf),
    "linear": layers.linear,
    "addmm": layers.added_product,
    "embedding": layers.embedding,
    "batch_norm": layers.per_channel_norm,
    "instance_norm": layers.per_channel_norm,
    "group_norm": layers.group_norm,
    "prelu": layers.prelu,
    "einsum": rules_einsum.einsum,
    "bilinear": rules_einsum.bilinear,
    "pixel_shuffle": shapes.shuffles_pixels,
    "pixel_unshuffle": shapes.unshuffles_pixels,
    "channel_shuffle": shapes.shuffles_channels,
    "cat": shapes.concatenates,
    "getitem": shapes.picks,
    "output": shapes.reaches_output,
    "_assert_tensor_metadata": shapes.ignores,
}

BACKWARD_RULES: dict[str, BackwardRule] = {
    **dict.fromkeys(ELEMENTWISE | POOLS | SPATIAL | CHANNEL_NORMS, backward.by_input),
    **dict.fromkeys(BROADCAST, backward.by_all),
    **dict.fromkeys(CONVOLUTIONS, backward.by_convolution),
    **dict.fromkeys(TRANSPOSED_CONVOLUTIONS, backward.by_weight),
    **dict.fromkeys(LAST_NORMS, backward.by_norm),
    **dict.fromkeys(MOVES, backward.by_moving),
    **dict.fromkeys(RESHAPES, backward.by_reshape),
    **dict.fromkeys(REDUCTIONS, backward.by_reduction),
    **dict.fromkeys(("expand", "expand_as"), backward.by_expansion),
    **dict.fromkeys(("parameter", "buffer", "embedding", "addmm"), backward.by_weight),
    **dict.fromkeys(("input", "constant"), backward.by_nothing),
    "linear": backward.by_linear,
    "bilinear": backward.by_weight,
    "einsum": rules_einsum.by_einsum,
    "getitem": backward.by_split,
    "cat": backward.by_parts,
}
