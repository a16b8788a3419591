"""The closed tables: what each operator does to a changed tensor, and how each makes one.

What is not here refuses.
"""

from gatewise.graph import (
    BROADCAST,
    CHANNEL_NORMS,
    CONVOLUTIONS,
    ELEMENTWISE,
    LAST_NORMS,
    POOLS,
    SPATIAL,
)
from gatewise.graph import TRANSPOSED as TRANSPOSED_CONVOLUTIONS
from gatewise.surgery.propagate import backward_rules as make
from gatewise.surgery.propagate import rules_layers as layers
from gatewise.surgery.propagate import rules_meet as meet
from gatewise.surgery.propagate import rules_shapes as shapes
from gatewise.surgery.propagate.sweep import Maker, Rule

PADS = {name for name in SPATIAL if "pad" in name}
MOVES = (
    "permute",
    "transpose",
    "t",
    "squeeze",
    "unsqueeze",
    "swapaxes",
    "numpy_T",
    "mT",
    "adjoint",
)
RESHAPES = ("view", "reshape", "flatten", "_unsafe_view", "unflatten", "view_as", "reshape_as")
REDUCTIONS = ("mean", "sum", "amax", "amin", "var", "std", "linalg_vector_norm", "norm")

RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE | (SPATIAL - PADS), shapes.passes),
    **dict.fromkeys(PADS, shapes.pads),
    **dict.fromkeys(BROADCAST, meet.meets),
    **dict.fromkeys(CONVOLUTIONS, layers.convolution),
    **dict.fromkeys(TRANSPOSED_CONVOLUTIONS, layers.transposed_convolution),
    **dict.fromkeys(LAST_NORMS, layers.last_norm),
    **dict.fromkeys(MOVES, shapes.moves),
    **dict.fromkeys(RESHAPES, shapes.reshapes),
    **dict.fromkeys(REDUCTIONS, shapes.reduces),
    **dict.fromkeys(("softmax", "_softmax", "log_softmax", "cumsum"), shapes.normalises),
    **dict.fromkeys(("slice", "select", "narrow", "roll", "flip", "index_select"), shapes.cuts),
    **dict.fromkeys(("expand", "expand_as"), shapes.expands),
    **dict.fromkeys(("chunk", "unsafe_chunk"), shapes.chunks),
    **dict.fromkeys(
        ("split", "split_with_sizes", "unbind", "unsafe_split", "tensor_split"), shapes.splits
    ),
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
    "cat": shapes.concatenates,
    "getitem": shapes.picks,
    "output": shapes.reaches_output,
    "_assert_tensor_metadata": shapes.ignores,
}

MAKERS: dict[str, Maker] = {
    **dict.fromkeys(ELEMENTWISE | POOLS | SPATIAL | CHANNEL_NORMS, make.by_input),
    **dict.fromkeys(BROADCAST, make.by_all),
    **dict.fromkeys(CONVOLUTIONS, make.by_convolution),
    **dict.fromkeys(TRANSPOSED_CONVOLUTIONS, make.by_weight),
    **dict.fromkeys(LAST_NORMS, make.by_norm),
    **dict.fromkeys(MOVES, make.by_moving),
    **dict.fromkeys(RESHAPES, make.by_reshape),
    **dict.fromkeys(REDUCTIONS, make.by_reduction),
    **dict.fromkeys(("expand", "expand_as"), make.by_expansion),
    **dict.fromkeys(("parameter", "buffer", "embedding", "addmm"), make.by_weight),
    **dict.fromkeys(("input", "constant"), make.by_nothing),
    "linear": make.by_linear,
    "cat": make.by_parts,
}
