"""PAU: a trainable ratio of polynomials."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.units.contract import (
    Device,
    DType,
    Limits,
    UnitModule,
    allocating,
    cast_like_input,
    check_input,
    describe_shape,
    error_bounds,
    in_compute_dtype,
    promise,
    unit,
)

# A is the published fit to ReLU, and B a fit to the leaky ReLU of slope 0.01, both on [-3, 3]. The
# largest errors, at 0, are 0.030 and 0.034.
STARTS = {
    "A": (
        (0.02996348, 0.61690165, 2.37539147, 3.06608078, 1.52474449, 0.25281987),
        (1.19160814, 4.40811795, 0.91111034, 0.34885983),
    ),
    "B": (
        (0.03357210, 0.50500854, 1.65271725, 2.00818076, 0.93060618, 0.15213787),
        (0.0, 3.97648070, 0.0, 0.30125300),
    ),
}
FORMS = tuple(STARTS)
START = "fit to ReLU (form A), or to leaky ReLU 0.01 (form B)"


def pau(
    x: Tensor,
    numerator: Tensor,
    denominator: Tensor,
    form: str = "A",
) -> Tensor:
    r"""Return a ratio of polynomials of degrees 5 and 4 whose denominator is at least 1.

    .. math:: \mathrm{PAU}(x) = \frac{\sum_{j=0}^5 a_j x^j}{Q(x)}, \qquad
        Q_A = 1 + \sum_{j=1}^4 |b_j x^j|, \quad Q_B = 1 + \Big|\sum_{j=1}^4 b_j x^j\Big|

    Beyond ``|x| = 1`` it is evaluated in powers of ``1/x``, so that no finite ``x`` overflows. In
    form A the derivative at 0 is :math:`a_1`, between its one-sided values :math:`a_1 \mp a_0
    |b_1|`.

    Args:
        x: the input, a real floating point tensor.
        numerator: the six coefficients :math:`a`.
        denominator: the four coefficients :math:`b`.
        form: ``"A"`` or ``"B"``, the form of the denominator.

    Shape: ``(*) -> (*)``.

    Molina, Schramowski and Kersting, 2020, "Padé Activation Units", arXiv:1907.06732.
    """
    check_input("pau", x)
    a = _coefficients("numerator", numerator, 6, x)
    b = _coefficients("denominator", denominator, 4, x)
    return in_compute_dtype(RATIOS[check_choice("pau", "form", form, FORMS)], x, *a, *b)


def _ratio_a(x: Tensor, *c: Tensor) -> Tensor:
    size = x.abs()
    return _horner(x, c[:6]) / (1 + size * _horner(size, [each.abs() for each in c[6:]]))


def _ratio_b(x: Tensor, *c: Tensor) -> Tensor:
    return _horner(x, c[:6]) / (1 + (x * _horner(x, c[6:])).abs())


RATIOS = {"A": _ratio_a, "B": _ratio_b}


def _coefficients(
    name: str,
    value: Tensor,
    count: int,
    x: Tensor,
) -> tuple[Tensor, ...]:
    if not isinstance(value, Tensor) or tuple(value.shape) != (count,):
        raise ArgumentError(
            f"pau: {name} must be a tensor of {count} numbers",
            got=describe_shape(value),
            allowed=f"shape ({count},)",
        )
    return cast_like_input("pau", name, value, x).unbind()


def _horner(x: Tensor, coefficients: Sequence[Tensor]) -> Tensor:
    total = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


def _reference(
    x: Tensor,
    numerator: Tensor,
    denominator: Tensor,
    form: str = "A",
) -> Tensor:
    terms = torch.stack([b * x ** (j + 1) for j, b in enumerate(denominator)])
    size = terms.abs().sum(0) if form == "A" else terms.sum(0).abs()
    return sum(a * x**j for j, a in enumerate(numerator)) / (1 + size)


@unit(
    name="pau",
    title="Padé activation unit",
    family="adaptive",
    on="gate > 1/2",
    function=pau,
    formula=r"\frac{a_0 + a_1 x + \cdots + a_5 x^5}{1 + |b_1 x| + \cdots + |b_4 x^4|}",
    paper="Molina, Schramowski and Kersting, 2020 (arXiv:1907.06732)",
    studied_in=(),
    reference=_reference,
    limits=Limits(minus=(-math.inf,), plus=(math.inf,)),
    kinks=lambda form="A": {0.0: STARTS["A"][0][1]} if form == "A" else {},
    parameters={"numerator": START, "denominator": START},
    largest=6e7,
    error=error_bounds(
        float32=promise(10, 2**-20, back_absolute=2**-19),
    ),
    samples=({}, {"form": "B"}),
    note="A smaller learning rate and no weight decay are usual for its coefficients.",
)
class PAU(UnitModule):
    """Module form of :func:`pau` with 10 trainable coefficients that start as a fit to a rectifier.

    Args:
        form: ``"A"`` or ``"B"``, the form of the denominator. A starts as ReLU, and B as a leaky
            ReLU of slope 0.01.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
    """

    def __init__(self, *, form: str = "A", device: Device = None, dtype: DType = None) -> None:
        super().__init__(form=form)
        self.form = check_choice("pau", "form", form, FORMS)
        with allocating("pau", device, dtype):
            self.numerator = nn.Parameter(torch.empty(6, device=device, dtype=dtype))
            self.denominator = nn.Parameter(torch.empty(4, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the coefficients to the fit of the form."""
        with torch.no_grad():
            self.numerator.copy_(torch.tensor(STARTS[self.form][0]))
            self.denominator.copy_(torch.tensor(STARTS[self.form][1]))

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.numerator, self.denominator
        if a.dtype is not x.dtype or a.is_cpu is not x.is_cpu:
            return pau(x, a, b, self.form)
        return RATIOS[self.form](x, *a.unbind(), *b.unbind())
