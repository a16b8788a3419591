"""Compiled forms of smooth units.

As right as the plain ones, the same bits everywhere, and only where it is safe.
"""

import math
from collections.abc import Callable

import pytest
import torch
from fused.unit_forms import GENERATED, PARTLY_GENERATED, SEVERAL_ELEMENTS
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

import gatewise as gw
from gatewise.fused import dispatch, kernels
from gatewise.native import loader
from gatewise.testing import Case, every_16_bit_value, float32_values, sweep_backward, sweep_forward
from gatewise.units.contract import forms

UNITS = {
    "silu": {},
    "swish": {"beta": -1.7},
    "soft_relu": {},
    "beta_vq": {"pieces": "abs", "beta": 0.8},
    "softplus": {"beta": 2.0},
    "gelu": {},
    "mish": {},
    "elu": {"alpha": 0.5},
    "acon_c": {"p1": 1.2, "p2": -0.3, "beta": 2.0},
    "pserf": {},
    "erfact": {},
    "smu": {"mu": 1.5},
    "smu1": {"mu": 0.5},
    "prelu": {"slope": 0.1},
}
MORE_UNITS = {
    "celu": {"alpha": 0.5},
    "dyt": {"alpha": 0.7, "weight": 1.2, "bias": -0.1},
    "hardsigmoid": {},
    "hardswish": {},
    "hardtanh": {"min_val": -0.5, "max_val": 2.0},
    "jump_relu": {},
    "leaky_relu2": {"slope": 0.1},
    "logsigmoid": {},
    "relu2": {},
    "relu6": {},
    "selu": {},
    "sigmoid": {},
    "softsign": {},
    "star_relu": {"scale": 0.8944, "bias": -0.4472},
    "tanh": {},
    "telu": {},
    "xielu": {},
}
OPTIONS = UNITS | MORE_UNITS
CASES = [
    pytest.param(Case(gw.get_unit(name), options), id=f"{name}-{i}")
    for name in OPTIONS
    for i, options in enumerate(gw.get_unit(name).samples)
    if options.get("beta") not in (0.0, 1.0)
    or name != "beta_vq"  # hard and mean forms have no gate to compile
    if "penalty" not in options and not isinstance(options.get("pieces"), tuple)
]
every_unit = pytest.mark.parametrize("name", OPTIONS)
# What does not depend on the unit is tested with a part of them.
each_unit = pytest.mark.parametrize("name", [*UNITS, "dyt", "jump_relu", "xielu"])
FAR = float(torch.finfo(torch.float32).max) * 2.0**-40
SPECIAL = [
    0.0,
    -0.0,
    1e-45,
    -1e-45,
    1e-38,
    -1e-38,
    1e-20,
    -1e-20,
    87.0,
    -87.0,
    -90.0,
    -103.9,
    -105.0,
    1e4,
    -1e4,
]
SPECIAL += [FAR, -FAR, 1e27, -1e27, 3e38, -3e38, math.inf, -math.inf, math.nan]

needs_compiler = pytest.mark.skipif(
    loader.library("elementwise").handle is None, reason="no compiled code"
)
pytestmark = needs_compiler


def function(name: str) -> Callable[[Tensor], Tensor]:
    return lambda x: gw.get_unit(name).function(x, **OPTIONS[name])


def value_and_slope(name: str, x: Tensor, above: Tensor | None = None) -> tuple[Tensor, Tensor]:
    leaf = x.detach().requires_grad_()
    y = function(name)(leaf)
    return y.detach(), torch.autograd.grad(y, leaf, torch.ones_like(y) if above is None else above)[
        0
    ]


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], tuple]], tuple]:
    """Run something with the plain forms."""

    def run(what: Callable[[], tuple]) -> tuple:
        with monkeypatch.context() as patch:
            patch.setattr(forms, "FORMS", [])
            return what()

    return run


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the compiled code was asked for, as it is asked."""
    made: list[str] = []
    for name in ("values", "slopes"):
        real = getattr(kernels.Kernel, name)

        def spy(*args, real=real, name=name, **options):
            made.append(name)
            return real(*args, **options)

        monkeypatch.setattr(kernels.Kernel, name, spy)
    return made


def test_the_list_of_generated_forms_is_that_of_the_catalogue():
    # Meta-ACON runs its network first, IIEU-B the lengths of patches.
    others = {"pau", "meta_acon", "iieu_b", *SEVERAL_ELEMENTS}
    assert {*OPTIONS, *others} == {*GENERATED, "beta_vq"}
    assert {*GENERATED, *PARTLY_GENERATED} <= set(gw.list_units())


def test_every_other_unit_runs_operations_of_torch():
    for name in gw.list_units():
        case = Case(gw.get_unit(name), gw.get_unit(name).samples[0])
        recording = dispatch.start_recording()
        case.build()(case.sample())
        is_generated = name in (*GENERATED, "beta_vq", "crelu")
        assert dispatch.stop_recording(recording) == ("fused" if is_generated else "native"), name


@every_unit
def test_it_is_used_forward_and_back(name: str, calls: list[str]):
    value_and_slope(name, torch.randn(3, 4))
    assert calls == ["values", "slopes"]


@pytest.mark.parametrize("case", CASES)
def test_every_float16_value_widened_is_within_the_float32_promise(case: Case, calls: list[str]):
    values = every_16_bit_value(torch.float16).float()
    assert bool(sweep_forward(case, values).within(case.unit.error["float32"].forward).all())
    finite = sweep_backward(case, values[values.isfinite()])
    assert bool(finite.within(case.unit.error["float32"].backward).all())
    assert "slopes" in calls


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_two_million_float32_values_are_within_the_promise(case: Case):
    for values in float32_values(2_000_000, seed=5).split(1 << 19):
        assert bool(sweep_forward(case, values).within(case.unit.error["float32"].forward).all())
        finite = sweep_backward(case, values[values.isfinite()])
        assert bool(finite.within(case.unit.error["float32"].backward).all())


@every_unit
def test_special_values_are_those_of_the_plain_form(name: str, plain):
    x = torch.tensor(SPECIAL)
    got, want = value_and_slope(name, x), plain(lambda: value_and_slope(name, x))
    for ours, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=2.0**-20, atol=2.0**-22, equal_nan=True)
        assert torch.equal(ours.isinf(), theirs.isinf())
    assert (
        math.copysign(1.0, got[0][1].item()) == math.copysign(1.0, want[0][1].item())
        or name == "beta_vq"
    )


@every_unit
def test_what_arrives_is_multiplied_by_the_slope_whatever_it_is(name: str):
    above = torch.tensor([math.nan, math.inf, -math.inf, 0.0, 1e38, -2.5, 1e-42] * 3)
    x = torch.linspace(-3.0, 3.0, 21)
    got, slope = value_and_slope(name, x, above)[1], value_and_slope(name, x)[1]
    torch.testing.assert_close(got, above * slope, rtol=0, atol=0, equal_nan=True)


@each_unit
def test_length_offset_and_stride_do_not_change_a_bit(name: str):
    x, above = 4 * torch.randn(400), torch.randn(400)
    whole = value_and_slope(name, x, above)
    for length in (*range(1, 70), 127, 130):
        for start in (0, 1, 3, 7):
            window = slice(start, start + length)
            for part, want in zip(
                value_and_slope(name, x[window], above[window]), whole, strict=True
            ):
                assert torch.equal(part, want[window]), (length, start)
    for step in (2, 3, 5):
        for part, want in zip(value_and_slope(name, x[::step], above[::step]), whole, strict=True):
            assert torch.equal(part, want[::step]), step


@each_unit
def test_layout_changes_no_bit_and_is_kept(name: str):
    x, above = torch.randn(3, 5, 4, 6), torch.randn(3, 5, 4, 6)
    want = value_and_slope(name, x, above)
    last = x.contiguous(memory_format=torch.channels_last)
    turned = x.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2)
    for view in (last, turned, x.transpose(0, 1).contiguous().transpose(0, 1)):
        got = value_and_slope(name, view, above)
        assert all(map(torch.equal, got, want))
        assert got[0].stride() == view.stride() == got[1].stride()
    expanded = torch.ones(()).expand(3, 5, 4, 6)
    assert torch.equal(value_and_slope(name, x, expanded)[1], value_and_slope(name, x)[1])
    assert torch.equal(
        function(name)(x[:1].expand(3, 5, 4, 6)), function(name)(x[:1].repeat(3, 1, 1, 1))
    )


@each_unit
def test_threads_change_no_bit(name: str):
    x = 3 * torch.randn((1 << 18) + 77)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        want = value_and_slope(name, x)
        for threads in (2, 3, 4):
            torch.set_num_threads(threads)
            assert all(map(torch.equal, value_and_slope(name, x), want))
    finally:
        torch.set_num_threads(before)


def test_a_steepness_per_channel_is_that_of_each_channel_alone_in_every_layout():
    x, beta = 2 * torch.randn(3, 5, 4, 6), torch.tensor([0.5, -1.0, 0.0, 3.0, 40.0])
    want = torch.stack([gw.functional.swish(x[:, i], float(beta[i])) for i in range(5)], dim=1)
    turned = x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2)
    for view in (x, x.contiguous(memory_format=torch.channels_last), turned, x[..., ::1]):
        assert torch.equal(gw.functional.swish(view, beta), want)
    assert torch.equal(gw.functional.swish(x[..., 0, 0], beta), want[..., 0, 0])
    assert torch.equal(gw.functional.swish(x.movedim(1, -1), beta, dim=-1), want.movedim(1, -1))


@pytest.mark.parametrize(
    "options", [{"pieces": "relu"}, {"pieces": "abs"}, {"pieces": "leaky_relu"}]
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("channels", [None, 5])
def test_the_gradient_to_a_trained_steepness_is_summed_to_the_last_bits(
    options, layout, channels, calls: list[str]
):
    module = gw.nn.BetaVQ(**options, beta=0.6, learn_beta=True, channels=channels)
    x, above = 2 * torch.randn(4, 5, 24, 31), torch.randn(4, 5, 24, 31)
    (got,) = torch.autograd.grad(
        module(x.contiguous(memory_format=layout)), module.beta_logit, above
    )
    assert calls == ["values", "slopes"]
    wide = gw.nn.BetaVQ(**options, beta=0.6, learn_beta=True, channels=channels).double()
    wide.load_state_dict(module.state_dict())
    (want,) = torch.autograd.grad(wide(x.double()), wide.beta_logit, above.double())
    # Each term is off by a dozen roundings of 2^-24; none is lost in the sum, which has few of its
    # own.
    terms = (x.abs() ** 2 * above.abs()).sum((0, 2, 3) if channels else None)
    assert bool(((got - want).abs() <= 16 * 2.0**-24 * terms).all())


def test_no_term_of_the_gradient_to_a_trained_steepness_is_lost():
    x, one = 3 * torch.randn(1, 5000), torch.ones(1, requires_grad=True)
    each = torch.ones(5000, requires_grad=True)
    (terms,) = torch.autograd.grad(
        gw.functional.swish(x, each).sum(), each
    )  # a sum of one term is the term
    (got,) = torch.autograd.grad(gw.functional.swish(x, one).sum(), one)
    torch.testing.assert_close(got, terms.double().sum()[None].float(), rtol=2.0**-23, atol=0)


@pytest.mark.parametrize(("x", "above", "want"), [(-1e20, 1e18, -2e37), (-1e-25, 1e-22, -2e-48)])
def test_products_beyond_the_range_of_float32_are_summed_in_float64(x, above, want):
    unit = gw.create_unit("prelu", channels=1)
    gradient = torch.zeros(1, 1, 64)
    # Sums of four products in float32 would be infinite, or 0.
    gradient[..., 0] = gradient[..., 16] = 2 * above
    gradient[..., 1] = gradient[..., 17] = -1.9 * above
    wide = (torch.full((1, 1, 64), x).double() * gradient.double()).sum()
    (got,) = torch.autograd.grad(unit(torch.full((1, 1, 64), x)), list(unit.parameters()), gradient)
    assert float(wide) == pytest.approx(want, rel=1e-5)
    torch.testing.assert_close(got, wide.float().reshape(1), rtol=1e-6, atol=2.0**-149)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_slope_has_the_same_bits_whether_or_not_the_steepness_is_trained(layout):
    x = (3 * torch.randn(3, 7, 9, 5)).contiguous(memory_format=layout).requires_grad_()
    above, beta = torch.randn(3, 7, 9, 5), torch.randn(7)
    (fixed,) = torch.autograd.grad(gw.functional.swish(x, beta), x, above)
    beta.requires_grad_()
    assert torch.equal(
        torch.autograd.grad(gw.functional.swish(x, beta), (x, beta), above)[0], fixed
    )


@pytest.mark.slow
@each_unit
def test_code_without_vectors_is_within_the_promise(
    name: str, monkeypatch: pytest.MonkeyPatch, calls: list[str]
):
    kernels.load.cache_clear()
    kernels.kernel_of.cache_clear()
    monkeypatch.setattr(kernels, "VECTORS", {})
    unit = gw.get_unit(name)
    case = Case(unit, unit.samples[0])
    values = every_16_bit_value(torch.float16).float()
    assert bool(sweep_forward(case, values).within(unit.error["float32"].forward).all())
    finite = sweep_backward(case, values[values.isfinite()])
    assert bool(finite.within(unit.error["float32"].backward).all())
    assert "slopes" in calls
    kernels.load.cache_clear()
    kernels.kernel_of.cache_clear()


@pytest.mark.parametrize("shape", [(1 << 18,), (40, 3, 50, 50)])
def test_the_gradient_to_a_trained_steepness_has_the_same_bits_with_any_number_of_threads(shape):
    x, above = torch.randn(shape), torch.randn(shape)
    beta = torch.full((3,) if len(shape) > 1 else (1,), 1.3, requires_grad=True)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(torch.autograd.grad(gw.functional.swish(x, beta), beta, above)[0])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_only_the_gradients_that_are_asked_for_are_given():
    x, beta = torch.randn(2, 3).requires_grad_(), torch.ones(3).requires_grad_()
    gw.functional.swish(x.detach(), beta).sum().backward()
    assert x.grad is None and beta.grad is not None
    beta.grad = None
    gw.functional.swish(x, beta.detach()).sum().backward()
    assert x.grad is not None and beta.grad is None


def test_a_steepness_that_is_not_a_number_shows():
    x, beta = torch.tensor([[1.0, -2.0]]), torch.tensor([math.nan, 1.0])
    assert gw.functional.swish(x, beta).isnan().tolist() == [[True, False]]
    assert gw.functional.swish(x, math.nan).isnan().all()


def test_a_steepness_of_zero_is_the_mean_of_the_lines_at_infinity_too():
    x = torch.tensor([[math.inf, -math.inf, 3.0, math.nan]])
    torch.testing.assert_close(gw.functional.swish(x, torch.zeros(1)), x / 2, equal_nan=True)
    got = gw.functional.beta_vq(x, "abs", eta=torch.zeros(1))
    torch.testing.assert_close(got, torch.tensor([[0.0, 0.0, 0.0, math.nan]]), equal_nan=True)


def test_no_gate_hides_what_is_not_a_number():
    x = torch.tensor([math.nan, 1.0]).requires_grad_()
    y = gw.functional.beta_vq(x, ((-1.0, 0.0), (0.0, 0.0)))
    y.sum().backward()
    assert y.isnan().tolist() == [True, False] == x.grad.isnan().tolist()


@pytest.mark.parametrize("name", [name for name in UNITS if name != "prelu"])  # its second is 0
def test_second_derivatives_go_through_the_plain_form(name: str, calls: list[str]):
    x = torch.linspace(-4.0, 4.0, 33)
    found = []
    for dtype in (torch.float32, torch.float64):
        leaf = x.to(dtype).requires_grad_()
        (first,) = torch.autograd.grad(function(name)(leaf).sum(), leaf, create_graph=True)
        found.append((first.detach(), *torch.autograd.grad(first.square().sum(), leaf)))
    for single, double in zip(*found, strict=True):
        torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-5)
    assert calls == ["values"]


def test_a_mixed_second_derivative_reaches_the_steepness():
    found = []
    for dtype in (torch.float32, torch.float64):
        x, beta = (
            torch.linspace(-2, 2, 9, dtype=dtype)[None].requires_grad_(),
            torch.full((9,), 1.5, dtype=dtype),
        )
        beta.requires_grad_()
        (first,) = torch.autograd.grad(gw.functional.swish(x, beta).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(first.sum(), beta)[0].double())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_hook_sees_one_gradient_also_when_it_is_derived_again():
    x = torch.randn(5).requires_grad_()
    middle, seen = 2 * x, []
    middle.register_hook(lambda slope: seen.append(1))
    torch.autograd.grad(gw.functional.silu(middle).sum(), x, create_graph=True)
    assert seen == [1]


def test_many_gradients_at_once():
    x = torch.randn(6).requires_grad_()
    y = gw.functional.gelu(x)
    (got,) = torch.autograd.grad(y, x, torch.eye(6), retain_graph=True, is_grads_batched=True)
    torch.testing.assert_close(
        got, torch.diag(torch.autograd.grad(y.sum(), x)[0]), rtol=1e-5, atol=1e-6
    )


def test_an_input_that_was_written_to_is_noticed():
    x = torch.randn(4).requires_grad_()
    middle = x * 1
    y = gw.functional.silu(middle)
    middle.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_is_saved_may_be_kept_in_another_form():
    x = torch.randn(4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t):
        y = gw.functional.mish(x)
    (got,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(got, value_and_slope("mish", x)[1], rtol=1e-5, atol=1e-6)


def test_nothing_is_nothing():
    for shape in ((0,), (2, 0, 3)):
        value, slope = value_and_slope("silu", torch.empty(shape))
        assert value.shape == slope.shape == shape
    empty = torch.empty(0, 3).requires_grad_()
    beta = torch.ones(3).requires_grad_()
    gw.functional.swish(empty, beta).sum().backward()
    assert beta.grad is not None and beta.grad.tolist() == [0.0] * 3


class Named(Tensor):
    pass


class Silent(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_dispatch(f, x):
    with Silent():
        return f(x)


def under_function_mode(f, x):
    with torch.device("cpu"):
        return f(x)


def under_dual_level(f, x):
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        return forward_ad.unpack_dual(f(dual)).primal


WAYS = {
    "vmap": lambda f, x: torch.vmap(f)(x),
    "functorch": lambda f, x: torch.func.grad(lambda z: f(z).sum())(x) * 0 + f(x.double()),
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,))[0],
    "dual": under_dual_level,
    "dispatch mode": under_dispatch,
    "function mode": under_function_mode,
    "trace": lambda f, x: torch.jit.trace(f, x, check_trace=False)(x),
    "subclass": lambda f, x: f(x.as_subclass(Named)).as_subclass(Tensor),
    "negation that is only noted": lambda f, x: f(torch._neg_view(-x)),
    "float64": lambda f, x: f(x.double()),
    "compile": lambda f, x: torch.compile(f, backend="eager", fullgraph=True)(x),
    "export": lambda f, x: torch.export.export(Wrapped(f), (x,)).module()(x),
}


LONG = (
    "trace",
    "compile",
    "export",
)  # one decision for all units: two of them are enough for what takes long
WATCHED = [
    (name, way) for name in UNITS for way in WAYS if way not in LONG or name in ("silu", "beta_vq")
]


class Wrapped(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize(("name", "way"), WATCHED)
def test_whoever_watches_the_operations_sees_the_plain_form(name: str, way: str, calls: list[str]):
    x = torch.linspace(-3.0, 3.0, 24).reshape(4, 6)
    got = WAYS[way](function(name), x)
    assert calls == []
    torch.testing.assert_close(got.float(), function(name)(x), rtol=1e-5, atol=1e-6)
    assert calls == ["values"]


@each_unit
def test_without_compiled_code_it_is_the_plain_form(
    name: str, plain, monkeypatch: pytest.MonkeyPatch
):
    x = torch.randn(50)
    monkeypatch.setattr(dispatch, "kernel_of", lambda *_: None)
    # Without the forms of few passes: test_without_compiler.py holds them to the bound.
    monkeypatch.setattr(dispatch, "FEW_PASSES", {})
    assert all(map(torch.equal, value_and_slope(name, x), plain(lambda: value_and_slope(name, x))))


def test_half_precision_is_the_float32_form_rounded(calls: list[str]):
    x = torch.randn(64).half()
    assert torch.equal(gw.functional.silu(x), gw.functional.silu(x.float()).half())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert gw.functional.silu(x.float()).dtype == torch.float32
    assert calls == ["values"] * 3


def test_no_channels_are_no_numbers():
    x = torch.empty(2, 0, 3, requires_grad=True)
    y = gw.functional.swish(x, torch.empty(0))
    y.sum().backward()
    assert y.shape == x.shape == x.grad.shape


def test_pieces_too_steep_for_the_compiled_form_take_the_plain_one():
    x = torch.tensor([0.0, 1e-45, -1e-45], requires_grad=True)
    gw.functional.beta_vq(x, ((1e30, -1e30), (0.0, 0.0)), 0.6).sum().backward()
    assert bool(x.grad[0] == 0)
