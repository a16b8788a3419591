"""Reconstruction from a layer's features, against dense pseudo-inverses."""

import math

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.filters import least_squares, random_ratio
from gatewise.errors import ArgumentError

CASES = {
    "zeros": nn.Conv2d(3, 8, 5, padding=2),
    "valid": nn.Conv2d(3, 8, 5, bias=False),
    "few filters": nn.Conv2d(3, 2, 5, padding=2),
    "stride": nn.Conv2d(3, 8, 4, stride=2, padding=1),
    "same": nn.Conv2d(2, 5, 3, padding="same"),
    "reflected": nn.Conv2d(2, 5, 3, padding=1, padding_mode="reflect"),
    "dilated": nn.Conv2d(2, 6, 3, dilation=2, padding=2),
    "grouped": nn.Conv2d(4, 8, 3, groups=2, padding=1),
    "circular": nn.Conv2d(3, 8, 5, padding=2, padding_mode="circular"),
    "circular, few": nn.Conv2d(3, 2, 3, padding=1, padding_mode="circular"),
    "circular, mean-free": nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
    "circular, dilated": nn.Conv2d(3, 2, 3, padding=2, dilation=2, padding_mode="circular"),
    "circular, wrapped": nn.Conv2d(3, 2, 9, padding=4, padding_mode="circular"),
    "circular, uneven": nn.Conv2d(
        3, 2, (2, 5), padding="same", dilation=(3, 1), padding_mode="circular"
    ),
    "circular, one-dimensional": nn.Conv1d(4, 3, 3, padding=1, padding_mode="circular"),
    "one-dimensional": nn.Conv1d(2, 5, 3, padding=1),
}
CASES["circular, mean-free"].weight.data -= CASES["circular, mean-free"].weight.data.mean(
    (2, 3), keepdim=True
)


def dense(conv: nn.Module, shape: torch.Size) -> Tensor:
    """The matrix (responses, unknowns) of a convolution without bias, column by column."""
    units = torch.eye(shape.numel(), dtype=torch.float64).reshape(-1, *shape)
    return conv._conv_forward(units, conv.weight.double(), None).flatten(1).T.detach()


def images(conv: nn.Module, size: int = 8) -> Tensor:
    return torch.randn(3, conv.in_channels, *[size] * (conv.weight.dim() - 2), dtype=torch.float64)


@pytest.mark.parametrize("case", CASES)
def test_without_pooling_it_is_the_projection_by_a_dense_pseudo_inverse(case: str) -> None:
    conv, x = CASES[case], images(CASES[case])
    matrix = dense(conv, x.shape[1:])
    want = (torch.linalg.pinv(matrix, rtol=1e-6) @ matrix @ x.flatten(1).T).T.reshape(x.shape)
    found = gw.analysis.reconstruct(conv, x)
    torch.testing.assert_close(found.image, want, atol=1e-7, rtol=0)
    torch.testing.assert_close(
        found.ratio, (x - want).flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1), atol=1e-7, rtol=0
    )
    assert found.method == ("fft" if "circular" in case else "cg")


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str
)
def test_weights_of_any_precision_are_seen_as_they_are(dtype: torch.dtype) -> None:
    conv = nn.Conv2d(16, 32, 3, padding=1, padding_mode="circular").to(dtype)
    conv.weight.data[:, 3] *= 0.1
    conv.weight.data[:, 5] = conv.weight.data[:, 4]  # a direction that no response sees
    x = images(conv, 4)
    matrix = dense(conv, x.shape[1:])
    want = (torch.linalg.pinv(matrix, rtol=1e-10) @ matrix @ x.flatten(1).T).T.reshape(x.shape)
    torch.testing.assert_close(
        gw.analysis.reconstruct(conv, x, method="fft").image, want, atol=1e-9, rtol=0
    )
    sizes = torch.linalg.svdvals(matrix)
    wrong = 1e-10 * float(sizes[0] / sizes[sizes > 1e-10 * sizes[0]][-1]) ** 2 * float(x.norm())
    torch.testing.assert_close(
        gw.analysis.reconstruct(conv, x, method="cg").image, want, atol=wrong, rtol=0
    )


@pytest.mark.parametrize("case", ["circular", "circular, few", "circular, mean-free"])
def test_the_closed_form_and_conjugate_gradients_agree(case: str) -> None:
    conv, x = CASES[case], images(CASES[case])
    closed, iterated = (
        gw.analysis.reconstruct(conv, x, method="fft"),
        gw.analysis.reconstruct(conv, x, method="cg"),
    )
    torch.testing.assert_close(closed.image, iterated.image, atol=1e-7, rtol=0)
    assert closed.iterations == 0 < iterated.iterations


def test_a_circular_convolution_that_changes_the_size_or_strides_is_solved_by_iterations() -> None:
    for options in ({"padding": 2}, {"padding": 1, "stride": 2}, {"padding": 1, "groups": 2}):
        conv = nn.Conv2d(2, 4, 3, padding_mode="circular", **options)
        assert gw.analysis.reconstruct(conv, images(conv)[:1]).method == "cg"


@pytest.mark.parametrize("case", ["circular", "circular, few"])
def test_the_quick_inverse_and_the_careful_one_agree_and_the_quick_one_knows_its_limits(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    conv, x = CASES[case], images(CASES[case])
    quick = gw.analysis.reconstruct(conv, x).image
    careful: list[float] = []
    solve = least_squares._solve_ill_conditioned
    monkeypatch.setattr(
        least_squares, "_solve_ill_conditioned", lambda *all: careful.append(all[-1]) or solve(*all)
    )
    assert torch.equal(gw.analysis.reconstruct(conv, x).image, quick) and not careful
    monkeypatch.setattr(least_squares, "ILL", 1.0)
    torch.testing.assert_close(gw.analysis.reconstruct(conv, x).image, quick, atol=1e-10, rtol=0)
    assert careful


@pytest.mark.parametrize("unit", ["crelu", "relu"])
@pytest.mark.parametrize("bias", [True, False])
def test_with_pooling_it_is_the_pseudo_inverse_of_the_shifts_that_won(
    unit: str, bias: bool
) -> None:
    conv, pool = nn.Conv2d(2, 3, 3, padding=1, bias=bias), nn.MaxPool2d(2)
    x = images(conv)[:1]
    y = conv.double()(x).detach()
    conv.float()
    keep = torch.zeros_like(y, dtype=torch.bool)
    for phase in (y, -y) if unit == "crelu" else (y,):
        for k in range(3):
            for i in range(0, 8, 2):
                for j in range(0, 8, 2):
                    region = phase[0, k, i : i + 2, j : j + 2]
                    if region.max() > 0:
                        place = int(region.argmax())
                        keep[0, k, i + place // 2, j + place % 2] = True
    matrix = dense(conv, x.shape[1:])[keep.flatten()]
    want = (torch.linalg.pinv(matrix) @ (matrix @ x.flatten())).reshape(x.shape)
    found = gw.analysis.reconstruct(conv, x, pool=pool, unit=unit)
    assert found.equations.item() == keep.sum().item()
    torch.testing.assert_close(found.image, want, atol=1e-7, rtol=0)


def test_relu_without_pooling_keeps_the_positive_responses_alone() -> None:
    conv, x = CASES["zeros"], images(CASES["zeros"])[:1]
    matrix = dense(conv, x.shape[1:])
    shifted = matrix @ x.flatten() + conv.bias.double().detach().repeat_interleave(64)
    positive = matrix[shifted > 0]
    want = (torch.linalg.pinv(positive) @ positive @ x.flatten()).reshape(x.shape)
    torch.testing.assert_close(
        gw.analysis.reconstruct(conv, x, unit="relu").image, want, atol=1e-6, rtol=0
    )


def test_features_that_keep_everything_give_everything_back_and_a_zero_filter_nothing() -> None:
    x = torch.randn(2, 3, 8, 8)
    identity = nn.Conv2d(3, 3, 1, bias=False)
    identity.weight.data = torch.linalg.qr(torch.randn(3, 3))[0][:, :, None, None]
    assert gw.analysis.reconstruct(identity, x).ratio.max() < 1e-9
    nn.init.zeros_(identity.weight)
    torch.testing.assert_close(
        gw.analysis.reconstruct(identity, x).ratio, torch.ones(2, dtype=torch.float64)
    )
    assert gw.analysis.reconstruct(identity, torch.zeros(1, 3, 8, 8)).ratio.item() == 0


def test_the_expected_ratio_of_random_subspaces_is_within_its_own_interval() -> None:
    kept, dimension, draws = 3, 9, 4000
    basis = torch.linalg.qr(torch.randn(draws, dimension, kept, dtype=torch.float64))[0]
    x = torch.randn(draws, dimension, 1, dtype=torch.float64)
    ratio = ((x - basis @ (basis.mT @ x)).norm(dim=1) / x.norm(dim=1)).flatten()
    assert abs(float(ratio.mean()) - random_ratio(kept, dimension)) < 3.3 * float(
        ratio.std()
    ) / math.sqrt(draws)
    assert random_ratio(1, 2) == pytest.approx(2 / math.pi)  # the mean of |cos| over the circle
    assert random_ratio(48, 2400) < math.sqrt(1 - 48 / 2400) == pytest.approx(0.98995, abs=1e-5)
    assert random_ratio(5, 5) == 0


def test_iterations_do_not_grow_with_the_image() -> None:
    conv = nn.Conv2d(3, 8, 5, padding=2, bias=False)
    torch.nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(0))
    counts = [
        gw.analysis.reconstruct(conv, torch.randn(1, 3, size, size)).iterations for size in (16, 64)
    ]
    assert counts[1] <= 2 * counts[0]


@pytest.mark.parametrize(
    ("conv", "size", "why"),
    [
        (nn.Conv2d(2, 4, 5), 4, "cannot be applied"),
        (nn.Conv2d(2, 4, 7, padding=3, padding_mode="circular"), 2, "cannot be applied"),
        (nn.Conv2d(2, 4, 7, padding=3, padding_mode="reflect"), 3, "cannot be applied"),
        (nn.Conv2d(2, 4, 3, padding=1, dtype=torch.complex64), 4, "not real"),
        (nn.LazyConv2d(4, 3), 4, "no shape yet"),
        (nn.Conv2d(2, 4, 3, device="meta"), 4, "no values"),
    ],
    ids=["too small", "wrapped twice", "reflected twice", "complex", "lazy", "meta"],
)
def test_a_layer_that_could_not_answer_itself_is_refused(
    conv: nn.Module, size: int, why: str
) -> None:
    with pytest.raises(ArgumentError, match=why):
        gw.analysis.reconstruct(conv, torch.randn(1, 2, size, size))


def test_the_record_prints_saves_and_draws_and_bad_input_is_refused() -> None:
    conv, x = CASES["zeros"], images(CASES["zeros"])
    found = gw.analysis.reconstruct(conv, x)
    assert (
        found.to_dict()["unknowns"] == 192
        and "mean ratio" in repr(found)
        and "<code>" in found._repr_html_()
    )
    assert found.plot().shape == (2, 3)
    for wrong in (
        {"unit": "abs"},
        {"method": "qr"},
        {"method": "fft"},
        {"pool": nn.AvgPool2d(2)},
        {"pool": nn.MaxPool1d(2)},
    ):
        with pytest.raises(ArgumentError):
            gw.analysis.reconstruct(conv, x, **wrong)
    for given in (
        torch.randn(1, 4, 8, 8),
        torch.randn(3, 8, 8),
        torch.randn(0, 3, 8, 8),
        torch.full((1, 3, 8, 8), math.nan),
    ):
        with pytest.raises(ArgumentError):
            gw.analysis.reconstruct(conv, given)
    with pytest.raises(ArgumentError, match="convolution"):
        gw.analysis.reconstruct(nn.Linear(3, 3), x)
    with pytest.raises(ArgumentError, match="did not reach"):
        gw.analysis.reconstruct(conv, x, most_iterations=2)


class Fixed(nn.Conv2d):
    """A convolution whose constructor takes no options."""

    def __init__(self) -> None:
        super().__init__(3, 24, 3, padding=1)


def test_a_convolution_of_a_users_class_is_reconstructed_as_torchs() -> None:
    torch.manual_seed(0)
    fixed, plain = Fixed(), nn.Conv2d(3, 24, 3, padding=1)
    plain.load_state_dict(fixed.state_dict())
    x = torch.randn(8, 3, 10, 10)
    ratios = []
    for layer in (fixed, plain):
        model = nn.Sequential(layer, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(600, 3))
        answer = gw.diagnose(model, x, questions="reconstruction")["reconstruction"]
        assert answer.state == "answered", answer.detail
        ratios.append(answer.facts["ratios"])
    assert ratios[0] == ratios[1]
