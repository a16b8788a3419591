"""Numbers and formulas as text."""

import math

import pytest

from gatewise import words
from gatewise.report.gallery import plain


@pytest.mark.parametrize(
    "value, text",
    [
        (0.25, "0.25"),
        (1e6, "1e6"),
        (-1.2345e-7, "−1.23e−7"),
        (-math.inf, "−∞"),
        (math.nan, "NaN"),
        (0.0, "0"),
        (None, ""),
    ],
)
def test_numbers(value, text):
    assert words.number(value) == text


@pytest.mark.parametrize(
    "steps, absolute, text",
    [(0, 0.0, "exact"), (2, 0.0, "2 ulp"), (2, 1e-7, "2 ulp or 1e−7"), (0, 2**-24, "5.96e−8")],
)
def test_promises(steps, absolute, text):
    assert words.bound(steps, absolute) == text


@pytest.mark.parametrize(
    "value, text",
    [(0.0307, "3.1 %"), (0.42, "42 %"), (0.0, "0 %"), (0.0001, "0 %"), (-0.05, "−5.0 %")],
)
def test_shares(value, text):
    assert words.percentage(value).replace("-", "−") == text


@pytest.mark.parametrize(
    "names, text",
    [
        ([], "none"),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d"], "a, b and 2 more"),
    ],
)
def test_lists_in_sentences(names, text):
    assert words.joined(names) == text


def test_counts_have_their_noun():
    assert [words.plural(n, "layer") for n in (0, 1, 1200)] == [
        "0 layers",
        "1 layer",
        "1,200 layers",
    ]


@pytest.mark.parametrize(
    "latex, text",
    [
        (r"\max(x, 0)", "max(x, 0)"),
        (r"\frac{1}{2}\,x^2", "1/2 x²"),
        (r"\frac{a_0 + a_1 x}{1 + |b_1 x|}", "(a₀ + a₁ x)/(1 + |b₁ x|)"),
        (r"x\,\mathrm{erf}(\alpha\,e^{\beta x})", "x erf(α e^(β x))"),
        (r"\sqrt{x^2 + \mu^2}", "√(x² + μ²)"),
        (r"[\,x^+,\; (-x)^+\,]", "[x⁺, (-x)⁺]"),
        (r"\begin{cases} x & x > 0 \\ 0 & x \le 0 \end{cases}", "x x > 0; 0 x ≤ 0"),
        (r"\{a, \bar{x}\}", "{a, x\u0304}"),
        (r"\left(\tfrac{x}{2}\right)", "(x/2)"),
    ],
)
def test_formulas_read_as_text(latex, text):
    assert plain(latex) == text


@pytest.mark.parametrize(
    "latex",
    ["", "{", "}{", "\\", "^", "_", r"\frac{1}", r"\sqrt", "{" * 200 + "}" * 200, r"\begin{cases}"],
)
def test_any_text_at_all_becomes_text(latex):
    assert isinstance(plain(latex), str)
