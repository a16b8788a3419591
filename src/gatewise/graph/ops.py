"""Which operators are activations, and what kinds of operators there are besides.

Closed tables: nothing is guessed.
"""

# operator: the name a site is given; several operators may be the same nonlinearity
ACTIVATIONS = {
    name: name
    for name in (
        *(
            "relu",
            "relu6",
            "hardtanh",
            "leaky_relu",
            "rrelu",
            "prelu",
            "elu",
            "selu",
            "celu",
            "gelu",
            "silu",
            "mish",
        ),
        *("softplus", "hardswish", "hardshrink", "softshrink", "threshold", "log_sigmoid", "tanh"),
    )
}
GATES = {
    "sigmoid": "sigmoid",
    "hardsigmoid": "hardsigmoid",
}  # most often the factor of a product: left alone unless asked

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
TRANSPOSED = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
LINEAR = {"linear", "addmm", "mm", "matmul", "bmm", "baddbmm"}
CHANNEL_NORMS = {"batch_norm", "instance_norm", "group_norm"}
LAST_NORMS = {"layer_norm", "rms_norm"}

# Each element of the output depends on the same element of the input alone.
ELEMENTWISE = {
    *ACTIVATIONS,
    *GATES,
    *(
        "abs",
        "neg",
        "exp",
        "expm1",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "square",
        "sign",
        "erf",
        "erfc",
    ),
    *(
        "sin",
        "cos",
        "atan",
        "sinh",
        "cosh",
        "ceil",
        "floor",
        "round",
        "trunc",
        "nan_to_num",
        "isnan",
        "logical_not",
    ),
    *("clamp", "clamp_min", "clamp_max", "clip", "pow", "positive"),
    *("dropout", "alpha_dropout", "feature_dropout", "native_dropout"),
    *(
        "clone",
        "contiguous",
        "detach",
        "alias",
        "to",
        "_to_copy",
        "type_as",
        "lift_fresh_copy",
        "float",
        "double",
    ),
    *(
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "bernoulli",
        "fill",
        "zero",
    ),
}
# Elementwise in two or three tensors that are broadcast against each other.
SUMS = {"add", "sub", "rsub", "maximum", "minimum", "where", "fmax", "fmin", "lerp", "copy"}
PRODUCTS = {"mul", "div", "multiply", "divide", "true_divide"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "atan2"}
MASKS = {"masked_fill"}
BROADCAST = SUMS | PRODUCTS | COMPARISONS | MASKS

MAX_POOLS = {"max_pool1d", "max_pool2d", "max_pool3d"}
POOLS = {
    *MAX_POOLS,
    *("avg_pool1d", "avg_pool2d", "avg_pool3d"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"),
}
SPATIAL = {
    *POOLS,
    *(
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
    ),
    *(
        "upsample_linear1d",
        "upsample_trilinear3d",
        "_upsample_nearest_exact2d",
        "pad",
        "constant_pad_nd",
    ),
    *("reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d"),
}
RESHAPES = {"view", "reshape", "flatten", "_unsafe_view", "unflatten", "view_as", "reshape_as"}
MOVES = {
    "permute",
    "transpose",
    "t",
    "swapaxes",
    "movedim",
    "squeeze",
    "unsqueeze",
    "numpy_T",
    "mT",
    "adjoint",
}
CUTS = {"slice", "select", "narrow", "index_select", "index", "gather", "roll", "flip"}
SPLITS = {
    "chunk",
    "split",
    "split_with_sizes",
    "unbind",
    "tensor_split",
    "unsafe_chunk",
    "unsafe_split",
}
REDUCTIONS = {
    "mean",
    "sum",
    "amax",
    "amin",
    "max",
    "min",
    "var",
    "std",
    "linalg_vector_norm",
    "norm",
    "argmax",
}

LEAVES = {"parameter", "buffer", "constant", "input"}


def activation_of(op: str) -> str | None:
    """The name of the activation the operator computes, gates included.

    ``None`` if it is not one.
    """
    return ACTIVATIONS.get(op) or GATES.get(op)
