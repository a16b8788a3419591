"""Orthonormal filters: the same matrix by every method, in every mode of torch."""

import copy
import itertools

import numpy as np
import pytest
import scipy.linalg
import torch
from gatewise_papers.maso import ApodizedConv2d
from layers.orthogonal_in_processes import SentOrthogonal
from torch import nn
from torch.func import functional_call, grad, jacfwd, jacrev, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrizations, parametrize

from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal import gram_schmidt_forms as maps
from gatewise.layers.orthonormal import orthogonal
from gatewise.testing import check_layer

SAME_Q = ("gram_schmidt", "modified_gram_schmidt", "qr", "cholesky")
METHODS = (*SAME_Q, "newton_schulz")
LAYERS = {
    "linear": lambda: nn.Linear(40, 7),
    "conv1d": lambda: nn.Conv1d(5, 8, 3),
    "conv2d": lambda: nn.Conv2d(3, 6, 3),
    "conv3d": lambda: nn.Conv3d(2, 9, 2),
    "square": lambda: nn.Linear(12, 12),
    "one row": lambda: nn.Linear(5, 1),
}


# torch's compiler makes an instance of every autograd.Function it traces, which torch itself has
# deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def of_condition(rows: int, columns: int, condition: float, dtype=torch.float32) -> torch.Tensor:
    """A random matrix with singular values evenly spread, in logarithm, from 1 to 1/condition."""
    left = torch.linalg.qr(torch.randn(rows, rows, dtype=torch.float64))[0]
    right = torch.linalg.qr(torch.randn(columns, rows, dtype=torch.float64))[0]
    return (
        (left * torch.logspace(0, -np.log10(condition), rows, dtype=torch.float64)) @ right.mT
    ).to(dtype)


def careful_gram_schmidt(w: torch.Tensor) -> torch.Tensor:
    """Gram-Schmidt by its definition in float64, each projection taken out twice.

    Exact to 1e-15 at any condition.
    """
    rows: list[torch.Tensor] = []
    for k in range(len(w)):
        rest = w[k].double()
        for _ in range(2):
            for q in rows:
                rest = rest - torch.dot(q, rest) * q
        rows.append(rest / torch.dot(rest, rest) ** 0.5)
    return torch.stack(rows)


def scipy_rows(w: np.ndarray) -> np.ndarray:
    q, r = scipy.linalg.qr(w.T.astype(np.float64), mode="economic")
    return (q * np.sign(np.diag(r))).T


def error(q: torch.Tensor) -> float:
    q = q.detach().double()
    return float((q @ q.mT - torch.eye(q.shape[-2], dtype=torch.float64)).abs().max())


def value_and_gradient(
    method: str, w: torch.Tensor, g: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    w = w.clone().requires_grad_()
    q = maps.METHODS[method](w)
    return q.detach(), torch.autograd.grad(q, w, g)[0]


@pytest.mark.parametrize("method", SAME_Q)
@pytest.mark.parametrize("build", LAYERS.values(), ids=LAYERS)
def test_the_filters_are_what_gram_schmidt_makes_of_them(build, method: str):
    layer = build().double()
    before = layer.weight.detach().flatten(1).numpy().copy()
    after = orthogonal(layer, method=method).weight
    assert after.shape == layer.parametrizations.weight.original.shape
    np.testing.assert_allclose(after.detach().flatten(1).numpy(), scipy_rows(before), atol=1e-12)


@pytest.mark.parametrize("condition", [1, 30, 1e3, 1e4])
def test_newton_schulz_gives_the_nearest_orthonormal_matrix(condition: float):
    w = of_condition(12, 30, condition, torch.float64)
    polar = scipy.linalg.polar(w.numpy(), side="left")[0]
    np.testing.assert_allclose(maps.newton_schulz(w), polar, atol=1e-9)
    assert error(maps.newton_schulz(w.float())) < 1e-6


@pytest.mark.parametrize("shape", [(24, 200), (32, 32), (48, 400)])
@pytest.mark.parametrize("condition", [1, 3, 10, 30, 1e2, 1e3, 1e4, 1e5, 1e6])
def test_cholesky_is_exact_with_an_exact_gradient_up_to_condition_1e6(
    shape: tuple[int, int], condition: float
):
    w = of_condition(*shape, condition)
    g = torch.randn(shape)
    exact = w.double().requires_grad_()
    want = careful_gram_schmidt(exact)
    (slope,) = torch.autograd.grad(want, exact, g.double())
    q, got = value_and_gradient("cholesky", w, g)
    assert error(q) <= 1e-6
    assert (q - want).abs().max() <= 1e-6
    assert (got - slope).norm() <= 1e-5 * slope.norm()


@pytest.mark.parametrize("method", SAME_Q)
def test_the_gradient_of_random_filters_is_that_of_float64_gram_schmidt(method: str):
    w, g = torch.randn(32, 288), torch.randn(32, 288)
    exact = w.double().requires_grad_()
    (slope,) = torch.autograd.grad(careful_gram_schmidt(exact), exact, g.double())
    _, got = value_and_gradient(method, w, g)
    assert (got - slope).norm() <= 1e-5 * slope.norm()


def test_gram_schmidt_is_no_longer_orthogonal_where_the_exact_ways_are():
    w = of_condition(48, 400, 1e6)
    assert error(maps.gram_schmidt(w)) > 0.1
    assert error(maps.modified_gram_schmidt(w)) > 1e-4
    assert error(maps.qr(w)) <= 1e-6 and error(maps.cholesky(w)) <= 1e-6


def test_rows_one_rounding_from_dependent_are_still_orthonormal():
    for dtype in (torch.float32, torch.float64):
        for condition in (1e7, 1e9, 1e12, 1e15):
            w = of_condition(16, 60, condition, dtype)
            q, slope = value_and_gradient("cholesky", w, torch.randn(16, 60, dtype=dtype))
            assert error(q) <= 1e-6 and slope.isfinite().all()


def test_float64_weights_are_exact_to_float64():
    w = of_condition(16, 60, 1e5, torch.float64)
    assert (maps.cholesky(w) - careful_gram_schmidt(w)).abs().max() < 1e-9
    assert error(maps.cholesky(w)) < 1e-14


def test_the_cheap_way_is_taken_where_it_is_exact(monkeypatch):
    passes = []
    once = maps._inverse_factor
    monkeypatch.setattr(
        maps, "_inverse_factor", lambda gram: passes.append(gram.dtype) or once(gram)
    )
    for condition, precisions in (
        (2, "32"),
        (12, "32 32"),
        (1e3, "32 64 64"),
        (1e6, "32 64 64"),
        (1e9, "32 64"),
    ):
        passes.clear()
        maps.cholesky(of_condition(24, 200, condition))
        assert " ".join(str(dtype)[-2:] for dtype in passes) == precisions, condition


DEFICIENT = {
    "all zero": lambda w: w.zero_(),
    "a row of zeros": lambda w: w[2].zero_(),
    "the first row zero": lambda w: w[0].zero_(),
    "a copy": lambda w: w[3].copy_(w[1]),
    "a negative copy": lambda w: w[3].copy_(-2 * w[1]),
    "two sums": lambda w: w[4:6].copy_(torch.stack((w[0] + w[1], w[0] - w[1]))),
}


@pytest.mark.parametrize("spoil", DEFICIENT.values(), ids=DEFICIENT)
@pytest.mark.parametrize("method", METHODS)
def test_dependent_rows_never_give_nan(method: str, spoil):
    w = torch.randn(6, 20)
    spoil(w)
    q, slope = value_and_gradient(method, w, torch.randn(6, 20))
    assert q.isfinite().all() and slope.isfinite().all()
    if method in ("cholesky", "qr"):
        assert error(q) <= 1e-6


def test_a_row_without_a_direction_gets_no_gradient_and_the_others_theirs():
    w, g = torch.randn(5, 12), torch.randn(5, 12)
    w[4] = w[0] + w[1]
    g[4] = 0  # so that the others' gradient does not depend on the direction that row 4 was given
    for method in ("cholesky", "qr"):
        _, slope = value_and_gradient(method, w, g)
        _, alone = value_and_gradient(method, w[:4], g[:4])
        assert slope[4].abs().max() < 1e-6
        assert (slope[:4] - alone).abs().max() < 1e-5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e-30, 1e-20, 1e18, 1e30])
def test_the_size_of_the_weights_does_not_matter(method: str, size: float):
    w, g = torch.randn(6, 20), torch.randn(6, 20)
    q, slope = value_and_gradient(method, w * size, g)
    want, plain = value_and_gradient(method, w, g)
    assert (q - want).abs().max() < 1e-6
    assert (slope.double() * size - plain).abs().max() < 1e-4 * plain.abs().max()


@pytest.mark.parametrize("method", SAME_Q)
def test_the_length_of_a_row_does_not_matter(method: str):
    w = torch.randn(6, 20)
    lengths = torch.tensor([1.0, 1e3, 1e-3, 7.0, 1e5, 1e-5])[:, None]
    assert (maps.METHODS[method](w * lengths) - maps.METHODS[method](w)).abs().max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "shape"),
    [*itertools.product(SAME_Q, [(4, 7), (3, 3), (2, 3, 5)]), ("newton_schulz", (2, 3))],
    ids=lambda each: str(each),
)
def test_derivatives_of_every_kind_match_finite_differences(method: str, shape: tuple[int, ...]):
    w = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    kinds = {
        "check_forward_ad": True,
        "check_batched_grad": True,
        "check_batched_forward_grad": True,
    }
    assert torch.autograd.gradcheck(maps.METHODS[method], (w,), **kinds)
    assert torch.autograd.gradgradcheck(maps.METHODS[method], (w,), check_fwd_over_rev=True)


@pytest.mark.parametrize("method", ["cholesky", "qr"])
def test_third_derivatives_agree_in_every_mix_of_forward_and_backward(method: str):
    w, g = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)

    def scalar(w: torch.Tensor) -> torch.Tensor:
        return (maps.METHODS[method](w) * g).sum()

    def by_definition(w: torch.Tensor) -> torch.Tensor:
        return (careful_gram_schmidt(w) * g).sum()

    third = jacrev(jacrev(jacrev(by_definition)))(w)
    for first, second, last in itertools.product((jacrev, jacfwd), repeat=3):
        torch.testing.assert_close(first(second(last(scalar)))(w), third, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_vmap_is_a_loop_also_over_matrices_of_unlike_condition(method: str):
    w = torch.stack([of_condition(6, 20, condition, torch.float64) for condition in (1, 30, 1e3)])
    function = maps.METHODS[method]
    for dim in (0, 1, 2):
        got = vmap(function, in_dims=dim)(w.movedim(0, dim))
        torch.testing.assert_close(
            got, torch.stack([function(each) for each in w]), rtol=1e-9, atol=1e-9
        )
    slopes = vmap(grad(lambda each: function(each).pow(3).sum()))(w)
    for each, slope in zip(w, slopes, strict=True):
        leaf = each.clone().requires_grad_()
        (want,) = torch.autograd.grad(function(leaf).pow(3).sum(), leaf)
        torch.testing.assert_close(slope, want, rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(
        vmap(lambda _: function(w[0]))(torch.zeros(2)), torch.stack([function(w[0])] * 2)
    )


def test_an_ensemble_of_orthogonal_layers_runs_under_vmap():
    layers = [orthogonal(nn.Linear(9, 4)) for _ in range(3)]
    x = torch.randn(5, 9)
    states = [layer.state_dict() for layer in layers]
    stacked = {name: torch.stack([state[name] for state in states]) for name in states[0]}
    got = vmap(lambda state: functional_call(layers[0], state, (x,)))(stacked)
    torch.testing.assert_close(got, torch.stack([layer(x) for layer in layers]))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_compiles_whole_with_the_same_values_and_gradients(method: str):
    torch._dynamo.reset()
    layer, x = orthogonal(nn.Conv2d(2, 3, 2), method=method), torch.randn(2, 2, 4, 4)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    original = layer.parametrizations.weight.original
    results = [
        (y := run(x), torch.autograd.grad(y.pow(3).sum(), original)[0]) for run in (layer, compiled)
    ]
    for eager, whole in zip(*results, strict=True):
        torch.testing.assert_close(whole, eager, rtol=1e-4, atol=1e-5)
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_exports_and_traces_without_operators_of_our_own(method: str):
    layer, x = orthogonal(nn.Linear(9, 4), method=method), torch.randn(2, 9)
    program = torch.export.export(
        layer, (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},)
    )
    wide = torch.randn(5, 9)
    torch.testing.assert_close(program.module()(wide), layer(wide))
    assert "gatewise" not in program.graph_module.code
    traced = make_fx(maps.METHODS[method])(torch.randn(4, 9))
    w = torch.randn(4, 9)
    torch.testing.assert_close(traced(w), maps.METHODS[method](w))


def test_each_group_of_a_convolution_is_a_matrix_of_its_own():
    layer = orthogonal(nn.Conv2d(6, 12, 2, groups=3))
    for group in layer.weight.flatten(1).chunk(3):
        assert error(group) <= 1e-6
    depthwise = nn.Conv2d(4, 4, 3, groups=4)
    before = depthwise.weight.detach().clone()
    after = orthogonal(depthwise).weight
    torch.testing.assert_close(after, before / before.flatten(1).norm(dim=1)[:, None, None, None])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "build", [lambda: nn.Conv2d(3, 96, 3), lambda: nn.Linear(4, 9)], ids=["paper", "linear"]
)
def test_more_filters_than_numbers_get_an_error_or_orthonormal_columns(build, method: str):
    with pytest.raises(ArgumentError, match=r"cannot be orthogonal.*rows_exceed='columns'"):
        orthogonal(build(), method=method)
    layer = build()
    before = layer.weight.detach().flatten(1).numpy().copy()
    after = orthogonal(layer, method=method, rows_exceed="columns").weight.flatten(1)
    assert error(after.mT) <= 1e-6
    if method in SAME_Q:
        np.testing.assert_allclose(after.detach().numpy(), scipy_rows(before.T).T, atol=1e-5)


def test_columns_are_not_touched_where_rows_fit():
    assert error(orthogonal(nn.Linear(9, 4), rows_exceed="columns").weight) <= 1e-6


def test_a_gain_starts_at_the_filters_lengths_and_trains():
    layer = nn.Conv2d(3, 6, 3)
    lengths = layer.weight.detach().flatten(1).norm(dim=1)
    orthogonal(layer, gain=True)
    torch.testing.assert_close(layer.weight.flatten(1).norm(dim=1), lengths)
    assert error(layer.weight.flatten(1) / lengths[:, None]) <= 1e-6
    layer(torch.randn(2, 3, 8, 8)).square().sum().backward()
    assert all(
        p.grad is not None and p.grad.isfinite().all() and p.grad.any() for p in layer.parameters()
    )
    assert set(layer.state_dict()) == {
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    }
    wanted = 3.0 * orthogonal(nn.Conv2d(3, 6, 3)).weight.detach()
    layer.weight = wanted
    torch.testing.assert_close(layer.weight, wanted)


def test_it_can_be_removed_and_leaves_the_filters_in_a_plain_layer():
    for gain in (False, True):
        layer, x = orthogonal(nn.Conv2d(3, 6, 3), gain=gain), torch.randn(2, 3, 8, 8)
        before, weight = layer(x), layer.weight.detach().clone()
        parametrize.remove_parametrizations(layer, "weight")
        assert (
            type(layer) is nn.Conv2d
            and torch.equal(layer.weight, weight)
            and torch.equal(layer(x), before)
        )
        assert set(layer.state_dict()) == {"weight", "bias"}


def test_state_and_copies_keep_the_filters():
    layer, x = orthogonal(nn.Linear(9, 4)), torch.randn(2, 9)
    assert set(layer.state_dict()) == {"bias", "parametrizations.weight.original"}
    other = orthogonal(nn.Linear(9, 4))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x), layer(x)) and torch.equal(copy.deepcopy(layer)(x), layer(x))
    with parametrize.cached():
        assert layer.weight is layer.weight


def test_training_moves_as_through_gram_schmidt_and_stays_orthonormal():
    x, y = torch.randn(64, 10, dtype=torch.float64), torch.randn(64, 4, dtype=torch.float64)
    layer = nn.Linear(10, 4, bias=False, dtype=torch.float64)
    w = layer.weight.detach().clone().requires_grad_()
    optimiser = torch.optim.SGD(orthogonal(layer).parameters(), lr=0.1)
    for _ in range(20):
        optimiser.zero_grad()
        (layer(x) - y).square().mean().backward()
        optimiser.step()
        (slope,) = torch.autograd.grad((x @ careful_gram_schmidt(w).mT - y).square().mean(), w)
        w = (w - 0.1 * slope).detach().requires_grad_()
    torch.testing.assert_close(
        layer.parametrizations.weight.original.detach(), w.detach(), rtol=1e-12, atol=1e-12
    )
    assert error(layer.weight) < 1e-14


@pytest.mark.parametrize("map_name", ["matrix_exp", "cayley"])
def test_torch_has_orthonormal_rows_too_by_another_map(map_name: str):
    layer = nn.Linear(20, 6)
    ours = orthogonal(copy.deepcopy(layer))
    torchs = parametrizations.orthogonal(layer, orthogonal_map=map_name)
    assert error(ours.weight) <= 1e-6 and error(torchs.weight) <= 1e-5
    with torch.no_grad():
        for each in (ours, torchs):
            original = each.parametrizations.weight.original
            original += 0.01 * torch.arange(120.0).reshape(original.shape)
    assert error(ours.weight) <= 1e-6 and error(torchs.weight) <= 1e-5
    assert (ours.weight - torchs.weight).abs().max() > 0.01


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_weights_are_orthonormal_to_their_own_rounding(dtype: torch.dtype, method: str):
    layer = orthogonal(nn.Linear(20, 6).to(dtype), method=method)
    assert layer.weight.dtype == dtype and error(layer.weight) < 2 * torch.finfo(dtype).eps
    layer(torch.randn(2, 20, dtype=dtype)).sum().backward()
    assert layer.parametrizations.weight.original.grad.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
def test_autocast_does_not_blur_the_filters_or_their_gradient(method: str):
    layer = orthogonal(nn.Linear(20, 6), method=method)
    original = layer.parametrizations.weight.original
    plain = torch.autograd.grad(layer.weight.pow(3).sum(), original)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        weight = layer.weight
        inside = torch.autograd.grad(weight.pow(3).sum(), original)[0]
        assert layer(torch.randn(2, 20)).dtype == torch.bfloat16
    assert weight.dtype == torch.float32 and error(weight) <= 1e-6
    if method in (
        "cholesky",
        "qr",
    ):  # the others' backward pass is torch's own, which autocast does not touch either
        torch.testing.assert_close(inside, plain)


@pytest.mark.parametrize("method", METHODS)
def test_shapes_are_known_on_the_meta_device(method: str):
    layer = orthogonal(nn.Linear(20, 6, device="meta"), method=method)
    assert layer(torch.empty(3, 20, device="meta")).shape == (3, 6)


OVERFLOW = "the gradient of the matrix overflows with that of the filters"
NOT_FOR_PARAMETRISED = {
    "works_on_the_meta_device": "torch sets the computed weight of a parametrised layer; see above",
    "compiles_whole_and_once": "torch compiles a class per parametrised layer; see above",
    "exports_to_onnx": "ONNX has no QR; remove the parametrisation first",
    "the_largest_numbers_never_give_nan": OVERFLOW,
    "the_largest_numbers_everywhere_never_give_nan": OVERFLOW,
    "the_largest_float16_everywhere_never_gives_nan": OVERFLOW,
}


@pytest.mark.slow
def test_an_orthogonal_layer_keeps_the_contract():
    check_layer(
        lambda: orthogonal(ApodizedConv2d(2, 3, 3, padding=1), gain=True),
        (2, 2, 4, 4),
        leave_out=NOT_FOR_PARAMETRISED,
    )


@pytest.mark.slow
def test_an_orthogonal_layer_trains_in_two_processes():
    check_layer(SentOrthogonal, (2, 6), only=["trains_in_two_processes"], ddp=True)


@pytest.mark.parametrize("method", METHODS)
def test_an_orthogonal_layer_never_gives_nan_and_its_state_survives(method: str):
    checks = (
        "state_survives",
        "finite_input_never_gives_nan",
        "every_parameter_receives_a_gradient",
    )
    check_layer(
        lambda: orthogonal(ApodizedConv2d(2, 3, 3), method=method), (2, 2, 4, 4), only=checks
    )


@pytest.mark.slow
def test_gram_schmidt_exports_to_onnx_whole():
    build = lambda: orthogonal(ApodizedConv2d(1, 2, 2), method="gram_schmidt")  # noqa: E731
    check_layer(build, (2, 1, 4, 4), only=["exports_to_onnx"])


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: orthogonal(nn.Linear(4, 2), method="svd"), "method"),
        (lambda: orthogonal(nn.Linear(4, 2), rows_exceed="rows"), "rows_exceed"),
        (lambda: orthogonal(nn.Linear(4, 2), gain=2.0), "gain"),
        (lambda: orthogonal(nn.Linear(4, 2), name="kernel"), "kernel"),
        (lambda: orthogonal(nn.Linear(4, 2), name="bias"), "does not hold filters"),
        (lambda: orthogonal(nn.BatchNorm2d(4)), "does not hold filters"),
        (lambda: orthogonal(nn.ReLU()), "no tensor 'weight'"),
        (lambda: orthogonal(nn.ConvTranspose2d(4, 2, 3)), "transposed"),
        (lambda: orthogonal(nn.LazyLinear(2)), "not known yet"),
        (lambda: orthogonal(torch.randn(2, 4)), "module"),
        (lambda: orthogonal(orthogonal(nn.Linear(4, 2))), "orthogonal already"),
        (lambda: orthogonal(nn.Conv2d(4, 32, 1, groups=2)), "at most 2 filters per group"),
    ],
)
def test_what_cannot_be_made_orthogonal_gets_our_error(call, match: str):
    with pytest.raises(ArgumentError, match=match):
        call()
