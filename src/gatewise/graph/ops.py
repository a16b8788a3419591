"""The operator table: what the library knows about each torch operator.

One record per operator. All other parts look operators up here, so a fact about an operator is
written once. An operator that is not in the table is unknown: nothing is guessed from its name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from inspect import Parameter, signature
from typing import Any

from torch import Tensor, nn

Number = float | Tensor
# A number, the name of an argument ("-name": its negative), or two names: the mean of both.
Entry = Number | str | tuple[str, str] | None
REQUIRED = Parameter.empty  # the default of an argument that has none


class Kind(Enum):
    """What an operator does to a tensor and to its channels. Each operator has one kind."""

    # One tensor, each element by itself.
    ACTIVATION = "activation"
    GLU = "gated linear unit"  # one tensor that holds two responses; one multiplies a gate
    GATE = "gate"  # most often a factor of a product, so it is swapped only on request
    POINTWISE = "pointwise"
    IDENTITY = "identity"  # the input itself or a view of all of it
    COPY = "copy"
    DROPOUT = "dropout"
    FILL = "fill"  # a new tensor of the shape of the input
    # Several tensors that are broadcast against each other, each element by itself.
    SUM = "sum"
    PRODUCT = "product"
    COMPARISON = "comparison"
    BINARY = "binary"
    MASK = "mask"
    # Layers.
    CONVOLUTION = "convolution"
    TRANSPOSED_CONVOLUTION = "transposed convolution"
    MATRIX_PRODUCT = "matrix product"  # channels along the last dimension
    CHANNEL_NORM = "channel norm"  # channels along dimension 1
    LAST_NORM = "last norm"  # channels along the last dimension
    EMBEDDING = "embedding"
    ATTENTION = "attention"
    BILINEAR = "bilinear"
    # Every channel by itself, along the spatial dimensions.
    MAX_POOL = "max pool"
    INDEXED_MAX_POOL = "indexed max pool"  # returns the indices, too
    AVERAGE_POOL = "average pool"
    UPSAMPLE = "upsample"
    PAD = "pad"
    # The same numbers in another arrangement.
    RESHAPE = "reshape"
    MOVE = "move"
    CUT = "cut"
    SPLIT = "split"
    EXPAND = "expand"
    REPEAT = "repeat"
    JOIN = "join"
    SHUFFLE = "shuffle"
    PATCHES = "patches"
    GETITEM = "getitem"
    # Along chosen dimensions.
    REDUCTION = "reduction"
    ARG_REDUCTION = "arg reduction"  # one result, two results, or an index
    SCAN = "scan"
    SOFTMAX = "softmax"
    LOG_SOFTMAX = "log softmax"
    # A function of torch that is several operators in a graph.
    COMPOSITE_FUNCTION = "composite function"
    OTHER = "other"


class Form(Enum):
    """How the output depends on the tensors that go in."""

    AFFINE = "affine"  # in all tensors together
    MULTILINEAR = "multilinear"  # affine in each tensor while the others are constant
    PIECEWISE = "piecewise"  # affine on each of several pieces
    SMOOTH = "smooth"  # an activation that is a smooth gate times its input
    GATE = "gate"  # bounded, or a truth value: a gate itself
    OTHER = "other"


class Sign(Enum):
    """What is known about the sign of the output."""

    NEVER_NEGATIVE = "never negative"
    KEPT = "kept"  # never negative if no tensor and no number that goes in is negative
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Pieces:
    """A piecewise linear function of one number.

    The function is ``slopes[i] * z + offsets[i]`` where ``z`` lies between ``thresholds[i - 1]``
    and ``thresholds[i]``. Thresholds increase. In the table, an entry may be the name of an
    argument of the operator; :meth:`resolve` replaces names by values.
    """

    thresholds: tuple[Any, ...] = (0.0,)
    slopes: tuple[Any, ...] = (0.0, 1.0)  # a tensor holds one slope per channel
    offsets: tuple[Any, ...] = (0.0, 0.0)

    @property
    def is_relu(self) -> bool:
        """Whether the number of a piece is its slope, and all offsets are 0."""
        numbers = not any(isinstance(slope, Tensor) for slope in self.slopes)
        return numbers and self.thresholds == (0.0,) and self.slopes == (0.0, 1.0)

    def resolve(self, arguments: Mapping[str, Any]) -> "Pieces":
        """Return the pieces of a call with ``arguments``, all entries as numbers or tensors.

        A first or last threshold that is ``None``, such as ``max`` of ``clamp(x, min=0)``, is left
        out together with the piece outside of it.
        """
        thresholds, slopes, offsets = (
            [_resolve(entry, arguments) for entry in entries]
            for entries in (self.thresholds, self.slopes, self.offsets)
        )
        if thresholds[-1] is None:
            del thresholds[-1], slopes[-1], offsets[-1]
        if thresholds and thresholds[0] is None:
            del thresholds[0], slopes[0], offsets[0]
        return Pieces(tuple(thresholds), tuple(slopes), tuple(offsets))

    def active(self, z: Tensor, arguments: Mapping[str, Any]) -> Tensor:
        """Return where ``z`` opens the gate, as truth values.

        A gate is open above the first threshold; open on both sides, if the function is flat in
        the middle only, such as ``hardshrink``.
        """
        thresholds = [_resolve(entry, arguments) for entry in self.thresholds]
        if len(thresholds) == 2 and self.slopes[1] == 0:
            return (z < thresholds[0]) | (z > thresholds[1])
        return z > thresholds[0]

    def on(self, arguments: Mapping[str, Any]) -> str:
        """Return what :meth:`active` compares, in words: ``x > 0``, ``|x| > 0.5``."""
        first = _resolve(self.thresholds[0], arguments)
        if len(self.thresholds) == 2 and self.slopes[1] == 0:
            return f"|x| > {abs(first):g}"
        return f"x > {first:g}"


def _resolve(entry: Entry, arguments: Mapping[str, Any]) -> Any:
    if isinstance(entry, tuple):
        return (arguments[entry[0]] + arguments[entry[1]]) / 2
    if not isinstance(entry, str):
        return entry
    value = arguments.get(entry.removeprefix("-"))
    if isinstance(value, int):
        value = float(value)
    if entry.startswith("-") and value is not None:
        return -value
    return value


@dataclass(frozen=True, eq=False)
class Operator:
    """One torch operator.

    Attributes:
        name: the name in ``torch.ops.aten``, without overload and without a trailing underscore.
        kind: what it does to a tensor and to its channels.
        form: how its output depends on its tensors.
        sign: what is known about the sign of its output.
        pieces: its pieces, if it is a piecewise linear function of each element.
        module: the class in ``torch.nn`` that calls it.
        functions: its names in ``torch``, ``torch.Tensor``, ``torch.special`` and
            ``torch.nn.functional``; empty for operators that are not activations.
        options: the arguments after the input with torch's defaults, in torch's order.
        has_inplace: whether ``torch.nn.functional`` takes ``inplace``, after the options.
        unit_options: options of the gatewise unit of the same name, by the option's name in torch.
        on: what it means that the activation is on for an input ``x``. For one with pieces,
            :meth:`Pieces.on` says it for the options of a call.
    """

    name: str
    kind: Kind = Kind.OTHER
    form: Form = Form.OTHER
    sign: Sign = Sign.UNKNOWN
    pieces: Pieces | None = None
    module: type[nn.Module] | None = None
    functions: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    has_inplace: bool = False
    unit_options: Mapping[str, str] = field(default_factory=dict)
    on: str = "gate > 1/2"

    @property
    def spatial_dims(self) -> int:
        """The number of spatial dimensions, 2 for ``conv2d``; 0 where the name has none."""
        digit = re.search(r"(\d)d$", self.name)
        return int(digit[1]) if digit else 0

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments of its function after the input, in torch's order."""
        if self.has_inplace:
            return (*self.options, "inplace")
        return tuple(self.options)


def _unit(
    name: str,
    form: Form,
    module: type[nn.Module],
    *,
    kind: Kind = Kind.ACTIVATION,
    sign: Sign = Sign.UNKNOWN,
    pieces: Pieces | None = None,
    functions: tuple[str, ...] = (),
    options: Mapping[str, Any] | None = None,
    unit_options: Mapping[str, str] | None = None,
    on: str = "x > 0",
) -> Operator:
    return Operator(
        name,
        kind,
        form,
        sign,
        pieces,
        module,
        functions or (name,),
        options or {},
        "inplace" in signature(module).parameters,
        unit_options or {},
        on,
    )


def _block(
    kind: Kind,
    *names: str,
    form: Form = Form.OTHER,
    sign: Sign = Sign.UNKNOWN,
) -> tuple[Operator, ...]:
    """Return one record per name, all with the same facts."""
    return tuple(Operator(name, kind, form, sign) for name in names)


def _clamp(low: Entry, high: Entry) -> Pieces:
    return Pieces((low, high), (0.0, 1.0, 0.0), (low, 0.0, high))


_SHRINK_THRESHOLDS = ("-lambd", "lambd")

_ACTIVATIONS = (
    _unit("relu", Form.PIECEWISE, nn.ReLU, pieces=Pieces(), sign=Sign.NEVER_NEGATIVE),
    _unit("relu6", Form.PIECEWISE, nn.ReLU6, pieces=_clamp(0.0, 6.0), sign=Sign.NEVER_NEGATIVE),
    _unit(
        "hardtanh",
        Form.PIECEWISE,
        nn.Hardtanh,
        pieces=_clamp("min_val", "max_val"),
        options={"min_val": -1.0, "max_val": 1.0},
        unit_options={"min_val": "min_val", "max_val": "max_val"},
    ),
    _unit(
        "leaky_relu",
        Form.PIECEWISE,
        nn.LeakyReLU,
        pieces=Pieces(slopes=("negative_slope", 1.0)),
        options={"negative_slope": 0.01},
        unit_options={"negative_slope": "slope"},
    ),
    _unit(
        "rrelu",
        Form.PIECEWISE,
        nn.RReLU,
        pieces=Pieces(slopes=(("lower", "upper"), 1.0)),
        options={"lower": 1 / 8, "upper": 1 / 3, "training": False},
    ),
    _unit(
        "prelu",
        Form.PIECEWISE,
        nn.PReLU,
        pieces=Pieces(slopes=("weight", 1.0)),
        options={"weight": REQUIRED},
    ),
    _unit(
        "threshold",
        Form.PIECEWISE,
        nn.Threshold,
        pieces=Pieces(("threshold",), (0.0, 1.0), ("value", 0.0)),
        options={"threshold": REQUIRED, "value": REQUIRED},
        unit_options={"threshold": "threshold", "value": "value"},
    ),
    _unit(
        "hardshrink",
        Form.PIECEWISE,
        nn.Hardshrink,
        pieces=Pieces(_SHRINK_THRESHOLDS, (1.0, 0.0, 1.0), (0.0, 0.0, 0.0)),
        options={"lambd": 0.5},
    ),
    _unit(
        "softshrink",
        Form.PIECEWISE,
        nn.Softshrink,
        pieces=Pieces(_SHRINK_THRESHOLDS, (1.0, 0.0, 1.0), ("lambd", 0.0, "-lambd")),
        options={"lambd": 0.5},
    ),
    _unit(
        "elu",
        Form.SMOOTH,
        nn.ELU,
        options={"alpha": 1.0},
        unit_options={"alpha": "alpha"},
    ),
    _unit("selu", Form.SMOOTH, nn.SELU),
    _unit(
        "celu",
        Form.SMOOTH,
        nn.CELU,
        options={"alpha": 1.0},
        unit_options={"alpha": "alpha"},
    ),
    _unit("gelu", Form.SMOOTH, nn.GELU, options={"approximate": "none"}),
    _unit("silu", Form.SMOOTH, nn.SiLU),
    _unit("mish", Form.SMOOTH, nn.Mish),
    _unit("hardswish", Form.SMOOTH, nn.Hardswish),
    _unit("tanh", Form.SMOOTH, nn.Tanh),
    _unit(
        "softplus",
        Form.SMOOTH,
        nn.Softplus,
        sign=Sign.NEVER_NEGATIVE,
        options={"beta": 1.0, "threshold": 20.0},
        unit_options={"beta": "beta"},
    ),
    _unit(
        "log_sigmoid",
        Form.SMOOTH,
        nn.LogSigmoid,
        functions=("logsigmoid",),
    ),
    _unit(
        "sigmoid",
        Form.GATE,
        nn.Sigmoid,
        kind=Kind.GATE,
        sign=Sign.NEVER_NEGATIVE,
        functions=("sigmoid", "expit"),
    ),
    _unit(
        "hardsigmoid",
        Form.GATE,
        nn.Hardsigmoid,
        kind=Kind.GATE,
        sign=Sign.NEVER_NEGATIVE,
    ),
    _unit(
        "softsign",
        Form.OTHER,
        nn.Softsign,
        kind=Kind.COMPOSITE_FUNCTION,
    ),
    _unit(
        "glu",
        Form.OTHER,
        nn.GLU,
        kind=Kind.GLU,
        options={"dim": -1},
        on="gate > 1/2",
    ),
    _unit(
        "tanhshrink",
        Form.OTHER,
        nn.Tanhshrink,
        kind=Kind.COMPOSITE_FUNCTION,
    ),
)

_POINTWISE = (
    Operator(
        "abs",
        Kind.POINTWISE,
        Form.PIECEWISE,
        Sign.NEVER_NEGATIVE,
        Pieces(slopes=(-1.0, 1.0)),
    ),
    Operator("clamp", Kind.POINTWISE, Form.PIECEWISE, pieces=_clamp("min", "max")),
    Operator("clip", Kind.POINTWISE, Form.PIECEWISE, pieces=_clamp("min", "max")),
    Operator(
        "clamp_min",
        Kind.POINTWISE,
        Form.PIECEWISE,
        pieces=Pieces(("min",), (0.0, 1.0), ("min", 0.0)),
    ),
    Operator(
        "clamp_max",
        Kind.POINTWISE,
        Form.PIECEWISE,
        pieces=Pieces(("max",), (1.0, 0.0), (0.0, "max")),
    ),
    Operator("nan_to_num", Kind.POINTWISE, Form.PIECEWISE),
    Operator("neg", Kind.POINTWISE, Form.AFFINE),
    *_block(
        Kind.POINTWISE,
        "exp",
        "exp2",
        "square",
        "sqrt",
        sign=Sign.NEVER_NEGATIVE,
    ),
    *_block(
        Kind.POINTWISE,
        "erf",
        "sign",
        "logical_not",
        "isnan",
        "isinf",
        "isfinite",
        form=Form.GATE,
    ),
    *_block(
        Kind.POINTWISE,
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "rsqrt",
        "reciprocal",
        "erfc",
        "sin",
        "cos",
        "atan",
        "sinh",
        "cosh",
        "ceil",
        "floor",
        "round",
        "trunc",
        "pow",
        "float_power",
    ),
    *_block(
        Kind.IDENTITY,
        "contiguous",
        "detach",
        "alias",
        "to",
        "type_as",
        "positive",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.COPY,
        "clone",
        "_to_copy",
        "lift_fresh_copy",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(Kind.DROPOUT, "dropout", "feature_dropout", form=Form.AFFINE, sign=Sign.KEPT),
    *_block(Kind.DROPOUT, "alpha_dropout", form=Form.AFFINE),
    *_block(Kind.DROPOUT, "native_dropout"),
    *_block(
        Kind.FILL,
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "bernoulli",
        "fill",
        "zero",
    ),
)

_BROADCAST = (
    *_block(Kind.SUM, "add", form=Form.AFFINE, sign=Sign.KEPT),
    *_block(Kind.SUM, "sub", "rsub", "where", "copy", form=Form.AFFINE),
    *_block(Kind.SUM, "maximum", "minimum", "fmax", "fmin", form=Form.PIECEWISE),
    *_block(Kind.SUM, "lerp", form=Form.MULTILINEAR),
    *_block(
        Kind.PRODUCT,
        "mul",
        "multiply",
        "div",
        "divide",
        "true_divide",
        form=Form.MULTILINEAR,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.COMPARISON,
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "logical_and",
        "logical_or",
        form=Form.GATE,
    ),
    *_block(Kind.BINARY, "heaviside", form=Form.GATE),
    *_block(Kind.BINARY, "atan2"),
    *_block(Kind.MASK, "masked_fill", form=Form.AFFINE),
)

_LAYERS = (
    *_block(Kind.CONVOLUTION, "conv1d", "conv2d", "conv3d", form=Form.MULTILINEAR),
    *_block(
        Kind.TRANSPOSED_CONVOLUTION,
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        form=Form.MULTILINEAR,
    ),
    *_block(
        Kind.MATRIX_PRODUCT,
        "linear",
        "addmm",
        "mm",
        "matmul",
        "bmm",
        "baddbmm",
        form=Form.MULTILINEAR,
    ),
    *_block(Kind.CHANNEL_NORM, "batch_norm", form=Form.AFFINE),  # affine in eval mode
    *_block(Kind.CHANNEL_NORM, "instance_norm", "group_norm"),
    *_block(Kind.LAST_NORM, "layer_norm", "rms_norm"),
    *_block(Kind.EMBEDDING, "embedding"),
    *_block(Kind.ATTENTION, "scaled_dot_product_attention"),
    *_block(Kind.BILINEAR, "bilinear"),
    *_block(Kind.OTHER, "einsum", "addcmul", form=Form.MULTILINEAR),
    *_block(Kind.OTHER, "is_nonzero", form=Form.GATE),
)

_SPATIAL = (
    *_block(
        Kind.MAX_POOL,
        "max_pool1d",
        "max_pool2d",
        "max_pool3d",
        form=Form.PIECEWISE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.INDEXED_MAX_POOL,
        "max_pool2d_with_indices",
        "adaptive_max_pool2d",
        form=Form.PIECEWISE,
    ),
    *_block(
        Kind.AVERAGE_POOL,
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "adaptive_avg_pool1d",
        "adaptive_avg_pool2d",
        "adaptive_avg_pool3d",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.UPSAMPLE,
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_nearest3d",
        "_upsample_nearest_exact2d",
        "upsample_linear1d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "upsample_trilinear3d",
        form=Form.AFFINE,
    ),
    *_block(
        Kind.PAD,
        "pad",
        "constant_pad_nd",
        "reflection_pad1d",
        "reflection_pad2d",
        "replication_pad1d",
        "replication_pad2d",
        form=Form.AFFINE,
    ),
)

_ARRANGEMENTS = (
    *_block(
        Kind.RESHAPE,
        "view",
        "reshape",
        "flatten",
        "_unsafe_view",
        "unflatten",
        "view_as",
        "reshape_as",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.MOVE,
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
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.CUT,
        "slice",
        "select",
        "narrow",
        "index_select",
        "index",
        "gather",
        "roll",
        "flip",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(
        Kind.SPLIT,
        "chunk",
        "split",
        "split_with_sizes",
        "unbind",
        "tensor_split",
        "unsafe_chunk",
        "unsafe_split",
        form=Form.AFFINE,
        sign=Sign.KEPT,
    ),
    *_block(Kind.EXPAND, "expand", "expand_as", form=Form.AFFINE, sign=Sign.KEPT),
    *_block(Kind.REPEAT, "repeat", form=Form.AFFINE),
    *_block(Kind.JOIN, "cat", "stack", form=Form.AFFINE, sign=Sign.KEPT),
    *_block(
        Kind.SHUFFLE,
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        form=Form.AFFINE,
    ),
    *_block(Kind.PATCHES, "unfold", "im2col", form=Form.AFFINE),
    *_block(Kind.GETITEM, "getitem", form=Form.AFFINE, sign=Sign.KEPT),
)

_REDUCTIONS = (
    *_block(Kind.REDUCTION, "mean", "sum", form=Form.AFFINE, sign=Sign.KEPT),
    *_block(Kind.REDUCTION, "amax", "amin", form=Form.PIECEWISE, sign=Sign.KEPT),
    *_block(Kind.REDUCTION, "var", "std", "linalg_vector_norm", "norm"),
    *_block(Kind.ARG_REDUCTION, "max", "min", form=Form.PIECEWISE),
    *_block(Kind.ARG_REDUCTION, "argmax", form=Form.GATE),
    *_block(Kind.SCAN, "cumsum", "diff", form=Form.AFFINE),
    *_block(Kind.SOFTMAX, "softmax", "_softmax", form=Form.GATE, sign=Sign.NEVER_NEGATIVE),
    *_block(Kind.LOG_SOFTMAX, "log_softmax"),
)

OPERATORS: Mapping[str, Operator] = {
    operator.name: operator
    for operator in (
        *_ACTIVATIONS,
        *_POINTWISE,
        *_BROADCAST,
        *_LAYERS,
        *_SPATIAL,
        *_ARRANGEMENTS,
        *_REDUCTIONS,
    )
}


def get_operator(name: str) -> Operator:
    """Return the record of the operator ``name``; an empty one if the table does not have it."""
    return OPERATORS.get(name) or Operator(name)


def operator_of_module(kind: type[nn.Module]) -> Operator | None:
    """Return the activation that a class of ``torch.nn`` calls, ``None`` for other classes."""
    for operator in OPERATORS.values():
        if operator.module is kind:
            return operator
    return None


def operators_of(*facts: Kind | Form | Sign) -> frozenset[str]:
    """Return the names of the operators that have one of the ``facts``."""
    names = set()
    for operator in OPERATORS.values():
        if not {operator.kind, operator.form, operator.sign}.isdisjoint(facts):
            names.add(operator.name)
    return frozenset(names)


ACTIVATIONS = operators_of(Kind.ACTIVATION)
GATES = operators_of(Kind.GATE)
GLUS = operators_of(Kind.GLU)
CONVOLUTIONS = operators_of(Kind.CONVOLUTION)
TRANSPOSED = operators_of(Kind.TRANSPOSED_CONVOLUTION)
LINEAR = operators_of(Kind.MATRIX_PRODUCT)
CHANNEL_NORMS = operators_of(Kind.CHANNEL_NORM)
LAST_NORMS = operators_of(Kind.LAST_NORM)
# Each element of the output depends on the same element of the input alone.
ELEMENTWISE = operators_of(
    Kind.ACTIVATION,
    Kind.GATE,
    Kind.POINTWISE,
    Kind.IDENTITY,
    Kind.COPY,
    Kind.DROPOUT,
    Kind.FILL,
)
SUMS = operators_of(Kind.SUM)
PRODUCTS = operators_of(Kind.PRODUCT)
MASKS = operators_of(Kind.MASK)
# Elementwise in two or three tensors that are broadcast against each other.
BROADCAST = operators_of(Kind.SUM, Kind.PRODUCT, Kind.COMPARISON, Kind.BINARY, Kind.MASK)
MAX_POOLS = operators_of(Kind.MAX_POOL)
POOLS = operators_of(Kind.MAX_POOL, Kind.AVERAGE_POOL)
SPATIAL = operators_of(Kind.MAX_POOL, Kind.AVERAGE_POOL, Kind.UPSAMPLE, Kind.PAD)
RESHAPES = operators_of(Kind.RESHAPE)
MOVES = operators_of(Kind.MOVE)
CUTS = operators_of(Kind.CUT)
SPLITS = operators_of(Kind.SPLIT)
REDUCTIONS = operators_of(Kind.REDUCTION, Kind.ARG_REDUCTION)
# Nodes of a graph that are no operators.
LEAVES = frozenset({"parameter", "buffer", "constant", "input"})


def is_activation(name: str) -> bool:
    """Return whether the operator ``name`` is an activation, a gate or a gated linear unit."""
    return name in ACTIVATIONS or name in GATES or name in GLUS
