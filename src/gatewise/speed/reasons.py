"""What is known about the work of a line that is often missed, beside what its profile shows."""

_ACCURATE = (
    "the generated function keeps its error bound in every tail, which takes more operations"
)
_CONVOLUTION = "the convolution itself is the same on both sides"
_KNOWN = {
    "expression/sigmoid": "keeps the input and computes the exponential again; torch's own keeps "
    "its result y, whose derivative is y (1 - y)",
    "expression/tanh": "keeps the input and computes the exponential again; torch's own keeps its "
    "result y, whose derivative is 1 - y^2",
    "expression/gelu": _ACCURATE,
    "bfloat16/gelu": _ACCURATE,
    "float16/gelu": _ACCURATE,
    "composed/coupler": "means that cannot overflow read and write each branch once more, forward "
    "and backward",
    "plain/gelu": "torch's own is outside the error bound below -0.5, so erfc is computed",
    "relu/iieu_b_elementwise": "the separate function; in the block of layer, norm and unit these "
    "passes are compiled by hand (resnet14/)",
    "relu/meta_acon": "the loops of acon_c, and means over positions that cannot overflow: three "
    "more passes over the maps",
    "patch_norm/3x3": "separate torch operators; the block of layer, norm and unit has them in its "
    "own passes (resnet14/)",
}


def reason_of(line: str) -> str:
    """Return what is known about a line; empty if nothing is.

    Args:
        line: its name.
    """
    if line in _KNOWN:
        return _KNOWN[line]
    if line.startswith(("crelu_reader/", "psc_reader/", "psc_inference/")):
        return _CONVOLUTION
    return ""
