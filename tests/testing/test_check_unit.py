"""check_unit notices every kind of mistake.

Each broken unit here fails, by the check that should notice it.
"""

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ContractError, MissingExtraError, UnknownNameError
from gatewise.testing import CHECKS, check_unit, measure
from gatewise.units.contract import EXACT, Limits, UnitModule, promise, unit_facts

SMOOTH = {
    name: promise(4, 2**-22, back_absolute=2**-19) for name in ("float16", "bfloat16", "float32")
}


def crelu_like(function, **changes):
    """A unit with CReLU's facts around another function."""

    class Mine(UnitModule):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    function.__name__ = "crelu"
    kept = gw.get_unit("crelu")
    facts = dict(
        name="crelu",
        title="",
        family="max-affine",
        formula="",
        paper="",
        reference=kept.reference,
        limits=kept.limits,
        channel_ratio=Fraction(2),
        kinks={0.0: 0.0},
        spans=kept.spans,
        error=EXACT,
        function=function,
    )
    return unit_facts(Mine, **facts | changes)


def smooth_like(function, module=None, **changes):
    """A unit with x * sigmoid(x) as its reference around another function."""

    class Mine(UnitModule):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    function.__name__ = "mine"
    facts = dict(
        name="mine",
        title="",
        family="smooth",
        formula="",
        paper="",
        reference=lambda x: x * torch.sigmoid(x),
        limits=Limits((0.0,), (math.inf,)),
        error=SMOOTH,
        function=function,
    )
    return unit_facts(module or Mine, **facts | changes)


def good(x):
    return torch.cat((x.relu(), x.neg().relu()), 1)


def failing_checks(unit, only=None):
    with pytest.raises(ContractError) as caught:
        check_unit(unit, only=only)
    return str(caught.value)


ARITHMETIC = [
    c
    for c in CHECKS
    if "onnx" not in c and "compile" not in c and "export" not in c and "trace" not in c
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken, noticed_by",
    [
        (lambda x: torch.cat((x.relu(), x.relu()), 1), "parts_span_what_is_declared"),
        (
            lambda x: torch.cat((x.relu(), x.neg().relu().clamp(max=6e4)), 1),
            "every_half_precision_value_is_within",
        ),
        (lambda x: torch.cat((x.relu(), x.neg().relu()), 0), "output_has_the_declared_width"),
        (lambda x: torch.cat((x.clamp(min=0), x.neg().relu()), 1), "derivative_at_each_kink"),
        (
            lambda x: torch.cat((x.nan_to_num().relu(), x.neg().relu()), 1),
            "every_half_precision_value_is_within",
        ),
        (
            lambda x: torch.cat((x.relu(), x.detach().neg().relu()), 1),
            "gradients_match_finite_differences",
        ),
        (lambda x: good(x).contiguous(), "channels_last_is_kept"),
        (lambda x: good(x.float()), "half_precision_modules_work"),
        (lambda x: good(x) + 1e-30, "every_half_precision_value_is_within"),
    ],
    ids=[
        "sign",
        "hidden-clamp",
        "batch-doubled",
        "kink",
        "hides-nan",
        "detached",
        "layout",
        "dtype",
        "tiny-offset",
    ],
)
def test_a_broken_crelu_fails_by_the_check_that_should_notice(broken, noticed_by):
    assert noticed_by in failing_checks(crelu_like(broken), ARITHMETIC)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes, noticed_by",
    [
        ({"channel_ratio": Fraction(1)}, "output_has_the_declared_width"),
        ({"kinks": {0.0: 1.0}}, "derivative_at_each_kink"),
        ({"limits": Limits((0.0, math.inf), (math.inf, 1.0))}, "the_curve_tends_to_its_limits"),
        ({"spans": {"relu": (0.0, 1.0)}}, "parts_span_what_is_declared"),
        (
            {"reference": lambda x: torch.cat((x.relu(), x.abs()), 1)},
            "float64_agrees_with_the_reference",
        ),
    ],
    ids=["width", "kink", "limit", "span", "reference"],
)
def test_a_wrong_fact_fails_by_the_check_that_should_notice(changes, noticed_by):
    assert noticed_by in failing_checks(crelu_like(good, **changes), ARITHMETIC)


def test_values_that_depend_on_the_batch_are_noticed():
    def shifts(x):
        return gw.functional.silu(x) + (1e-3 if x.shape[0] == 1 else 0.0)

    assert "batch" in failing_checks(smooth_like(shifts), ["batches_do_not_matter"])


def test_an_understated_error_is_noticed():
    exact = smooth_like(lambda x: gw.functional.silu(x), error=EXACT)
    text = failing_checks(
        exact, ["every_half_precision_value_is_within_the_promise", "float32_is_within_the_promise"]
    )
    assert text.count("break the promise") == 2


def test_a_graph_break_is_noticed():
    def breaks(x):
        if bool((x > 1e9).any()):
            return x
        return gw.functional.silu(x)

    assert "compiles_whole_and_once" in failing_checks(
        smooth_like(breaks), ["compiles_whole_and_once"]
    )


def test_a_recompile_for_every_batch_size_is_noticed():
    def recompiles(x):
        return gw.functional.silu(x) + (0.0 if x.shape[0] == 2 else -0.0)

    assert "recompiled" in failing_checks(smooth_like(recompiles), ["compiles_whole_and_once"])


def test_a_wrong_second_derivative_is_noticed():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return gw.functional.silu(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            s = torch.sigmoid(x).detach()
            return grad * (s + x * s * (1 - s))

    only = ["second_gradients_match_finite_differences"]
    assert only[0] in failing_checks(smooth_like(lambda x: Wrong.apply(x)), only)


def test_a_gradient_wrong_by_a_hundredth_of_a_percent_is_noticed():
    def nearly(x):
        y = gw.functional.silu(x)
        return y + 1e-4 * (y - y.detach())

    assert "numerical" in failing_checks(
        smooth_like(nearly), ["gradients_match_finite_differences"]
    )


def test_a_nan_that_vanishes_backward_is_noticed():
    def hides(x):
        return gw.functional.relu(x.clamp(-1e30, 1e30))

    only = ["a_nan_never_vanishes_on_the_way_back"]
    assert only[0] in failing_checks(smooth_like(hides), only)


def test_an_unused_parameter_and_an_undeclared_one_are_noticed():
    class Idle(UnitModule):
        def __init__(self) -> None:
            super().__init__()
            self.idle = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return gw.functional.silu(x)

    unit = smooth_like(lambda x: gw.functional.silu(x), Idle)
    text = failing_checks(unit, ["trains", "parameters_are_declared"])
    assert "without a gradient" in text and "undeclared" in text


def test_a_parameter_that_small_steps_do_not_move_is_noticed():
    class Rounded(UnitModule):
        def __init__(self) -> None:
            super().__init__()
            self.beta = nn.Parameter(torch.ones(1))

        def _apply(self, fn, recurse=True):
            return nn.Module._apply(self, fn, recurse)  # to bfloat16, whatever unit_dtype says

        def forward(self, x: Tensor) -> Tensor:
            return gw.functional.swish(x, self.beta)

    facts = {"parameters": {"beta": "1"}, "reference": lambda x, beta: x * torch.sigmoid(beta * x)}
    unit = smooth_like(lambda x, beta=1.0: gw.functional.swish(x, beta), Rounded, **facts)
    check = "float32_parameters_move_in_a_half_precision_model"
    assert "does not move in a bfloat16 model" in failing_checks(unit, [check])


def test_a_module_that_differs_from_its_function_is_noticed():
    class Other(UnitModule):
        def forward(self, x: Tensor) -> Tensor:
            return gw.functional.silu(x) * (1 + 1e-6)

    unit = smooth_like(lambda x: gw.functional.silu(x), Other)
    assert "module and function differ" in failing_checks(unit, ["module_and_function_agree"])


def test_the_receipt_counts_and_a_good_unit_of_the_users_own_passes():
    unit = smooth_like(lambda x: gw.functional.silu(x))
    receipt = check_unit(unit, only=ARITHMETIC)
    assert str(receipt) == f"mine: {len(ARITHMETIC)} of {len(ARITHMETIC)} checks passed"


def test_a_check_that_could_not_run_is_said_and_not_counted_as_passed(monkeypatch):
    def missing(case):
        raise MissingExtraError("needs onnx", fix="install it")

    monkeypatch.setitem(CHECKS, "exports_to_onnx", missing)
    text = str(check_unit("relu", only=["exports_to_onnx", "module_and_function_agree"]))
    assert "1 of 1 checks passed" in text and "left out: exports_to_onnx: needs onnx" in text


def test_a_wrong_check_name_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'exports'"):
        check_unit("relu", only=["export"])


def test_measure_reports_torchs_own_beside_ours():
    rows = {(r.dtype, r.direction): r for r in measure("gelu", dtypes=("bfloat16",))}
    row = rows["bfloat16", "forward"]
    assert row.kept and row.inputs > 60_000
    # It is torch's own.
    assert (row.ulps, row.absolute) == (row.torch_ulps, row.torch_absolute)
