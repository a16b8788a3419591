"""The references, against formulas in 50-digit arithmetic: values and derivatives."""

import mpmath
import pytest
import torch
from mpmath import mpf

import gatewise as gw

mpmath.mp.dps = 50
POINTS = [-30.0, -8.5, -3.0, -1.25, -0.75, -0.3, -1e-3, 1e-3, 0.3, 0.8, 1.7, 3.3, 9.0, 40.0]


def logistic(x):
    return 1 / (1 + mpmath.exp(-x))


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


def pau(x, a, b, form):
    top = sum(f32(c) * x**j for j, c in enumerate(a))
    terms = [f32(c) * x ** (j + 1) for j, c in enumerate(b)]
    return top / (1 + (sum(abs(t) for t in terms) if form == "A" else abs(sum(terms))))


def soft_choice(x, slopes, offsets, eta):
    scores = [mpf(a) * x + mpf(b) for a, b in zip(slopes, offsets, strict=True)]
    weights = [mpmath.exp(eta * u) for u in scores]
    return sum(w * u for w, u in zip(weights, scores, strict=True)) / sum(weights)


def xielu(x, alpha_p, alpha_n):
    below = HALF + softplus(alpha_n)
    curve = softplus(alpha_p) * max(x, 0) ** 2 + below * (mpmath.expm1(min(x, 0)) - min(x, 0))
    return curve + HALF * x


def hat(x, knots, heights):
    """The piecewise-linear curve through (knots, heights), with slopes 0 and 1 outside."""
    if x <= knots[0]:
        return mpf(heights[0])
    if x > knots[-1]:
        return heights[-1] + (x - knots[-1])
    i = next(i for i in range(len(knots)) if knots[i] < x <= knots[i + 1])
    return heights[i] + (heights[i + 1] - heights[i]) * (x - knots[i]) / (knots[i + 1] - knots[i])


def f32(value):
    """The start value as a float32 parameter holds it."""
    return mpf(torch.tensor(value).item())


RAW_P, RAW_N = (float(mpmath.log(mpmath.expm1(mpf(a)))) for a in ("0.8", "0.3"))
SELU_SCALE, SELU_ALPHA = mpf(1.0507009873554805), mpf(1.6732632423543772)
ALPHA, MU = mpf("0.25"), f32(4.352665993287951e-9)
HALF, ETA = mpf("0.5"), mpf(0.05)
KNOTS = [mpf(i) * 6 / 16 - 3 for i in range(17)]
TRUTH = {
    "relu": lambda x: max(x, 0),
    "leaky_relu": lambda x: max(x, 0) + mpf(0.01) * min(x, 0),
    "abs": lambda x: abs(x),
    "elu": lambda x: x if x > 0 else mpmath.expm1(x),
    "softplus": softplus,
    "gelu": lambda x: x * mpmath.ncdf(x),
    "silu": lambda x: x * logistic(x),
    "swish": lambda x: x * logistic(x),
    "soft_relu": lambda x: (1 + mpf(0.1)) * x * logistic(4 * x),
    "mish": lambda x: x * mpmath.tanh(softplus(x)),
    "prelu": lambda x: max(x, 0) + min(x, 0) / 4,
    "erfact": lambda x: x * mpmath.erf(mpf("0.75") * mpmath.exp(mpf("0.75") * x)),
    "pserf": lambda x: x * mpmath.erf(mpf("1.25") * softplus(f32(0.85) * x)),
    "acon_c": lambda x: x * logistic(x),
    "smu": lambda x: ((1 + ALPHA) * x + (1 - ALPHA) * x * mpmath.erf(10**6 * (1 - ALPHA) * x)) / 2,
    "smu1": lambda x: ((1 + ALPHA) * x + mpmath.sqrt((1 - ALPHA) ** 2 * x * x + MU * MU)) / 2,
    "pau": lambda x: pau(
        x,
        (0.02996348, 0.61690165, 2.37539147, 3.06608078, 1.52474449, 0.25281987),
        (1.19160814, 4.40811795, 0.91111034, 0.34885983),
        "A",
    ),
    "pwlu": lambda x: hat(x, KNOTS, [max(0, k) for k in KNOTS]),
    "beta_vq": lambda x: soft_choice(x, (0, 1), (0, 0), 1),
    "meta_acon": lambda x: (
        (f32(1.2) + f32(0.3)) * x * logistic((f32(1.2) + f32(0.3)) * x / 2) - f32(0.3) * x
    ),
    "frelu": lambda x: max(x, 0),
    "relu2": lambda x: max(x, 0) ** 2,
    "leaky_relu2": lambda x: (max(x, 0) + min(x, 0) / 2) ** 2,
    "star_relu": lambda x: max(x, 0) ** 2,
    "telu": lambda x: x * mpmath.tanh(mpmath.exp(x)),
    "xielu": lambda x: xielu(x, *map(f32, (RAW_P, RAW_N))),
    "jump_relu": lambda x: x if x > f32(0.0011) else mpf(0),
    "hardswish": lambda x: x * min(max(x + 3, 0), 6) / 6,
    "hardsigmoid": lambda x: min(max(x / 6 + HALF, 0), 1),
    "hardtanh": lambda x: min(max(x, -1), 1),
    "relu6": lambda x: min(max(x, 0), 6),
    "selu": lambda x: SELU_SCALE * (x if x > 0 else SELU_ALPHA * mpmath.expm1(x)),
    "celu": lambda x: x if x > 0 else mpmath.expm1(x),
    "tanh": mpmath.tanh,
    "sigmoid": logistic,
    "softsign": lambda x: x / (1 + abs(x)),
    "logsigmoid": lambda x: -softplus(-x),
    "tanhshrink": lambda x: x - mpmath.tanh(x),
    "threshold": lambda x: x if x > mpf(0.01) else mpf(0),
    "dyt": lambda x: mpmath.tanh(x / 2),
    # For a value of 1.
    "glu": logistic,
    "swiglu": lambda x: x * logistic(x),
    "clamped_swiglu": lambda x: min(x, 7) * logistic(min(x, 7)),
    "situ_glu": lambda x: 100 * mpmath.tanh(x / 4) * logistic(x) * mpmath.tanh(mpf(1) / 25),
    "gelu_tanh": lambda x: x * logistic(mpmath.sqrt(8 / mpmath.pi) * (x + mpf(0.044715) * x**3)),
    "geglu": lambda x: x * mpmath.ncdf(x),
    "reglu": lambda x: max(x, 0),
    "bilinear": lambda x: x,
    "iieu_b": lambda x: x * (x + HALF if x + HALF >= ETA else ETA * mpmath.exp(x + HALF - ETA)),
}


def test_every_unit_of_one_variable_is_here():
    assert set(gw.list_units()) - set(TRUTH) == {"crelu", "leaky_crelu", "maxout"}


@pytest.mark.parametrize("name", TRUTH)
def test_reference_value_and_derivative(name):
    truth = TRUTH[name]
    case = gw.testing.Case(gw.get_unit(name), gw.get_unit(name).samples[0])
    x = (
        torch.tensor(POINTS, dtype=torch.float64)
        .expand(1, case.channels, -1)
        .clone()
        .requires_grad_()
    )
    y = case.reference(x)
    (slope,) = torch.autograd.grad(y, x, torch.ones_like(y))
    for i, point in enumerate(POINTS):
        if point in case.kinks:
            continue
        want, want_slope = truth(mpf(point)), mpmath.diff(truth, mpf(point), h=mpf(10) ** -20)
        assert y[0, 0, i].item() == pytest.approx(float(want), rel=1e-13, abs=1e-15), point
        assert slope[0, 0, i].item() == pytest.approx(float(want_slope), rel=1e-12, abs=1e-14), (
            point
        )
