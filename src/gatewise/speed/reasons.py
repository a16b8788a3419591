"""Why a line is missed, as profiling showed it: the one place that the table reads.

Times are of one core of a server processor with AVX2, in nanoseconds for one element. Native relu
takes 1.1 to 1.6 forward and backward on the maps of the lines. It waits for memory alone, so a unit
that computes for longer than that cannot reach it. With vectors twice as wide the ratios are lower.
"""

ARITHMETIC = (
    "arithmetic, not memory: from the first cache {} ns forward, {} backward; relu 1.1 to 1.6"
)
# Nanoseconds forward and backward, from the first cache.
_IN_CACHE = {
    "swish": (1.7, 4.4),
    "acon_c": (2.3, 11.3),
    "beta_vq": (1.9, 7.2),
    "gelu": (2.0, 2.9),
    "smu": (3.2, 7.7),
    "smu1": (1.2, 6.0),
    "erfact": (5.6, 9.9),
    "pserf": (7.1, 16.8),
}
_NOT_MEMORY = "from the first cache {} ns forward where torch's own takes {}: {}"
_CALL = (
    "waits for memory as torch's own does, which drops NaN from gradients; the rest is the call "
    "from Python, 0.08 ns an element on these maps"
)
_CONVOLUTION = "the convolution alone takes 0.86 to 0.97 of the eager form here"
_OTHERS = {
    "relu/crelu": "reads and writes 7 maps where relu reads and writes 5",
    "expression/silu": _NOT_MEMORY.format(
        1.8, 1.5, "8 of 18 operations handle infinities and inputs far out"
    ),
    "expression/gelu": _NOT_MEMORY.format(
        2.0, 1.7, "8 of 13 operations around erfc handle infinities and inputs far out"
    ),
    "expression/sigmoid": "keeps the input and computes the exponential again; torch's own keeps "
    "its result y, whose derivative is y (1 - y)",
    "expression/relu6": _CALL,
    "expression/hardtanh": _CALL,
    "expression/hardswish": _CALL,
    "expression/hardsigmoid": _CALL,
    "composed/swiglu": "as silu: 8 of 18 operations handle infinities and inputs far out",
    "composed/geglu": "as gelu: 8 of 13 operations around erfc handle infinities and inputs far "
    "out",
    "composed/coupler": "means that cannot overflow read and write each branch once more, forward "
    "and backward: 3.6 ms for each of both, where the mixture takes one pass each way",
    "plain/gelu": "torch's own is outside the error bound below -0.5; erfc alone takes 1.5 times "
    "its time",
    "relu/iieu_b_elementwise": "arithmetic and sums: the generated loops write four derivatives "
    "and add them up in float64; in the block of layer, norm and unit these passes are compiled "
    "by hand (resnet14/)",
    "relu/meta_acon": "the loops of acon_c, and one more pass over the maps for the mean",
    "resnet14/inference": "beside the convolutions 24 ms: 19 in the compiled passes over 10 M "
    "responses, 5 in lengths of filters and calls from Python; batch norm and relu take 11",
    "resnet14/training": "the pass backward takes 2 to 3 ns for one response",
    "patch_norm/3x3": "separate torch operators; in the block of layer, norm and unit 0.2 ns an "
    "element each way",
    "crelu_reader/3x3_64_64": "the convolution alone takes 0.97 of the eager form here",
    "crelu_reader/1x1_64_256_channels_last": _CONVOLUTION + "; by blocks of matrix products, "
    "without the concatenation, 1.04 to 1.10",
}
_READER = (
    _CONVOLUTION + "; two convolutions take 1.01 to 1.20, blocks of matrix products 1.07 to 1.10, "
    "one convolution that writes both halves again in the backward pass 0.93 to 1.02"
)
_HALF = "computed in float32 and converted each way; 8 of 18 operations are for inputs far out"


def reason_of(line: str) -> str:
    """Return why a line is missed; empty if nothing was profiled.

    Args:
        line: its name.
    """
    if line in _OTHERS:
        return _OTHERS[line]
    group, _, unit = line.partition("/")
    if group in ("relu", "expression") and unit in _IN_CACHE:
        return ARITHMETIC.format(*_IN_CACHE[unit])
    if group in ("bfloat16", "float16"):
        return _HALF
    if group in ("psc_reader", "psc_inference"):
        return _READER
    return ""
