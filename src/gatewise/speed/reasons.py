"""Why a line is missed, as profiling showed it: the one place that the table reads.

Times are of one core of an idle server processor with AVX2, in nanoseconds for one element: of the
generated loops by themselves, on 512 elements in the first cache. Native relu takes 0.9 to 1.5
forward and backward on the maps of the lines. It waits for memory alone, so a unit that computes
for longer than that cannot reach it. With vectors twice as wide the ratios are lower.
"""

ARITHMETIC = (
    "arithmetic, not memory: from the first cache {} ns forward, {} backward; relu 0.9 to 1.5"
)
# Nanoseconds forward and backward, from the first cache. Each summed gradient takes 0.2 of it.
_IN_CACHE = {
    "swish": (1.0, 1.5),
    "acon_c": (1.0, 2.6),
    "beta_vq": (1.0, 2.5),
    "gelu": (1.2, 1.3),
    "smu": (1.5, 2.2),
    "smu1": (0.4, 1.6),
    "erfact": (3.1, 3.8),
    "pserf": (4.0, 5.4),
}
_CALL = (
    "waits for memory as torch's own does, which drops NaN from gradients; the rest is the call "
    "from Python, 0.08 ns an element on these maps"
)
_CONVOLUTION = "the convolution alone takes 0.86 to 0.97 of the eager form here"
_OTHERS = {
    "relu/crelu": "reads and writes 7 maps where relu reads and writes 5",
    "expression/sigmoid": "keeps the input and computes the exponential again; torch's own keeps "
    "its result y, whose derivative is y (1 - y)",
    "expression/relu6": _CALL,
    "expression/hardtanh": _CALL,
    "expression/hardswish": _CALL,
    "expression/hardsigmoid": _CALL,
    "composed/bilinear": "waits for memory as the product of torch does; the rest is the call from "
    "Python",
    "composed/coupler": "means that cannot overflow read and write each branch once more, forward "
    "and backward: 3.6 ms for each of both, where the mixture takes one pass each way",
    "plain/gelu": "torch's own is outside the error bound below -0.5; erfc alone takes 1.5 times "
    "its time",
    "relu/iieu_b_elementwise": "arithmetic and sums: from the first cache 0.7 ns forward, 2.0 "
    "backward, of which 0.6 are the sums of three gradients in float64; in the block of layer, "
    "norm and unit these passes are compiled by hand (resnet14/)",
    "relu/prelu": "the sum of the gradient to the slope in float64 takes 0.2 ns from the first "
    "cache, where forward and backward themselves take 0.2 and wait for memory",
    "expression/leaky_relu": "torch's own function runs on both sides; what is left is the check "
    "of the input and the spread of the measurement",
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
    if group in ("psc_reader", "psc_inference"):
        return _READER
    return ""
