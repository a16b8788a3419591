"""Arithmetic of generated kernels for Triton: the functions of ``elementwise.c``, one for one.

They have the names, constants and order of operations of the C functions, so both forms of a unit
have the same error. Products and sums are fused only where ``fma`` says so, divisions and roots are
rounded to nearest, and no function of the GPU's own library is called: those differ between
devices. Importing this module needs Triton.

Note [Half types]. A bfloat16 number is read and written as an integer. Triton's interpreter cuts
bits off where a GPU rounds, so a conversion of its own could not be checked without a GPU.
"""

import triton  # pyright: ignore[reportMissingImports] (an extra)
import triton.language as tl  # pyright: ignore[reportMissingImports]


@triton.jit
def as_bits(x: tl.tensor) -> tl.tensor:
    """Return the bits of float32 numbers."""
    return x.to(tl.int32, bitcast=True)


@triton.jit
def as_float(bits: tl.tensor) -> tl.tensor:
    """Return the float32 numbers that have these bits."""
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def absolute(x: tl.tensor) -> tl.tensor:
    """Return the magnitude."""
    return tl.abs(x)


@triton.jit
def square_root(x: tl.tensor) -> tl.tensor:
    """Return the square root, rounded to nearest."""
    return tl.sqrt_rn(x)


@triton.jit
def fused(a: tl.tensor, b: tl.tensor, c: tl.tensor) -> tl.tensor:
    """Return ``a * b + c``, rounded once."""
    return tl.fma(a, b, c)


@triton.jit
def exp_polynomial(r: tl.tensor) -> tl.tensor:
    """Return ``exp(r) - 1`` near 0."""
    p = tl.full(r.shape, 0.0013933645095676184, tl.float32)
    p = fused(p, r, 0.008363177068531513)
    p = fused(p, r, 0.04166646674275398)
    p = fused(p, r, 0.16666576266288757)
    p = fused(p, r, 0.5)
    return fused(r * r, p, r)


@triton.jit
def exp_rest(x: tl.tensor, n: tl.tensor) -> tl.tensor:
    """Return ``x - n log 2``."""
    return fused(n, 0.00021219444170128554, fused(n, -0.693359375, x))


@triton.jit
def split_negative(x: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Return the power of two of ``exp(x)`` for -104 <= x <= 0, times 2**24, and the rest."""
    shifted = fused(x, 1.4426950216293335, 12583063.0)
    n = shifted - 12583063.0
    return as_float(as_bits(shifted) << 23), exp_polynomial(exp_rest(x, n))


@triton.jit
def exp_of_negative(x: tl.tensor) -> tl.tensor:
    """Return ``exp(x)`` for x <= 0 or NaN."""
    power, less_one = split_negative(tl.where(x < -104.0, -104.0, x))
    return fused(less_one, power, power) * 5.9604644775390625e-08


@triton.jit
def expm1_of_negative(x: tl.tensor) -> tl.tensor:
    """Return ``exp(x) - 1`` for x <= 0 or NaN."""
    scaled, less_one = split_negative(tl.where(x < -104.0, -104.0, x))
    power = scaled * 5.9604644775390625e-08
    return tl.where(x == 0.0, x, fused(power, less_one, power - 1.0))


@triton.jit
def split_any(x: tl.tensor) -> tuple[tl.tensor, tl.tensor, tl.tensor]:
    """Return two factors that are the power of two of ``exp(x)``, and the rest."""
    low = tl.where(x < -104.0, -104.0, x)
    z = tl.where(low > 89.0, 89.0, low)
    shifted = fused(z, 1.4426950216293335, 12582912.0)
    whole = as_bits(shifted) - 0x4B400000
    half = whole >> 1
    first = as_float((half + 127) << 23)
    second = as_float((whole - half + 127) << 23)
    return first, second, exp_polynomial(exp_rest(z, shifted - 12582912.0))


@triton.jit
def exp_any(x: tl.tensor) -> tl.tensor:
    """Return ``exp(x)``."""
    first, second, less_one = split_any(x)
    return ((1.0 + less_one) * first) * second


@triton.jit
def expm1_any(x: tl.tensor) -> tl.tensor:
    """Return ``exp(x) - 1``."""
    first, second, less_one = split_any(x)
    power = first * second
    near = fused(power, less_one, power - 1.0)
    far = ((1.0 + less_one) * first) * second
    return tl.where(x == 0.0, x, tl.where(x > 32.0, far, near))


@triton.jit
def log1p_of_unit(e: tl.tensor) -> tl.tensor:
    """Return ``log(1 + e)`` for 0 <= e <= 1 or NaN."""
    s = tl.div_rn(e, 2.0 + e)
    z = s * s
    p = tl.full(z.shape, 0.23239104449748993, tl.float32)
    p = fused(p, z, 0.2170330435037613)
    p = fused(p, z, 0.28592583537101746)
    p = fused(p, z, 0.3999970257282257)
    p = fused(p, z, 0.6666666865348816)
    return fused(-s, fused(-z, p, e), e)


@triton.jit
def log_plus(x: tl.tensor, correction: tl.tensor) -> tl.tensor:
    """Return ``log(x)`` plus a small correction."""
    is_small = x < 1.1754943508222875e-38
    scaled = tl.where(is_small, x * 8388608.0, x)
    shift = tl.where(is_small, -23.0, 0.0)
    offset = as_bits(scaled) - 0x3F3504F3  # the root of 1/2
    n = (offset >> 23).to(tl.float32) + shift
    f = as_float((offset & 0x7FFFFF) + 0x3F3504F3) - 1.0
    s = tl.div_rn(f, 2.0 + f)
    z = s * s
    p = tl.full(z.shape, 0.1932547390460968, tl.float32)
    p = fused(p, z, 0.22193913161754608)
    p = fused(p, z, 0.2857169806957245)
    p = fused(p, z, 0.4000000059604645)
    p = fused(p, z, 0.6666666865348816)
    series = fused(-s, fused(-z, p, f), f)
    value = n * 0.693145751953125 + (series + (n * 1.428606765330187e-06 + correction))
    edge = tl.where(x == 0.0, float("-inf"), float("nan"))
    return tl.where(x > 0.0, tl.where(x < float("inf"), value, x), edge)


@triton.jit
def log_any(x: tl.tensor) -> tl.tensor:
    """Return ``log(x)``."""
    return log_plus(x, tl.zeros(x.shape, tl.float32))


@triton.jit
def log1p_any(x: tl.tensor) -> tl.tensor:
    """Return ``log(1 + x)``."""
    u = 1.0 + x
    correction = tl.div_rn(x - (u - 1.0), u)
    value = log_plus(u, tl.where(x < 1073741824.0, correction, 0.0))
    return tl.where(tl.abs(x) < 2.9802322387695312e-08, x, value)


@triton.jit
def erfc_of_positive(a: tl.tensor) -> tl.tensor:
    """Return ``erfc(a)`` for a >= 0."""
    e = exp_of_negative(-(a * a))
    wide = a * 1.4142135381698608
    v = tl.div_rn(tl.where(wide < 20.0, wide, 20.0), wide + 2.5)
    p = tl.full(v.shape, 0.03043186292052269, tl.float32)
    p = fused(p, v, -0.1450105458498001)
    p = fused(p, v, 0.21592006087303162)
    p = fused(p, v, -0.10185602307319641)
    p = fused(p, v, 0.0734032541513443)
    p = fused(p, v, -0.10610480606555939)
    p = fused(p, v, -0.2018892616033554)
    p = fused(p, v, 0.0995045155286789)
    p = fused(p, v, 1.1302921772003174)
    p = fused(p, v, -1.9947113990783691)
    p = fused(p, v, 1.0)
    return p * e


@triton.jit
def erfc_any(x: tl.tensor) -> tl.tensor:
    """Return ``erfc(x)``."""
    tail = erfc_of_positive(tl.abs(x))
    return tl.where(x < 0.0, 2.0 - tail, tail)


@triton.jit
def erf_any(x: tl.tensor) -> tl.tensor:
    """Return ``erf(x)``."""
    z = x * x
    p = tl.full(z.shape, 7.882497448008507e-05, tl.float32)
    p = fused(p, z, -0.0008018855005502701)
    p = fused(p, z, 0.005189312156289816)
    p = fused(p, z, -0.02685432881116867)
    p = fused(p, z, 0.11283597350120544)
    p = fused(p, z, -0.3761262595653534)
    near = fused(x, fused(z, p, 0.12837910652160645), x)
    far = 1.0 - erfc_of_positive(tl.abs(x))
    return tl.where(tl.abs(x) < 1.0, near, tl.where(x < 0.0, -far, far))


@triton.jit
def tanh_any(x: tl.tensor) -> tl.tensor:
    """Return ``tanh(x)``."""
    m = expm1_of_negative(-2.0 * tl.abs(x))
    size = tl.div_rn(-m, 2.0 + m)
    return tl.where(x < 0.0, -size, tl.where(x == 0.0, x, size))
