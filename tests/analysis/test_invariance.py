"""Invariance scores against loops over places, and filters whose score is known."""

import math

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.gating import SizeHistogram
from gatewise.errors import ArgumentError

FLIP = torch.tensor([[-1.0, 0, 0], [0, 1, 0]])


def shift(pixels: int, width: int) -> Tensor:
    """The image moved right by whole pixels."""
    return torch.tensor([[1.0, 0, -2 * pixels / width], [0, 1, 0]])


def loops(
    model: nn.Module, images: Tensor, found, location: str, moved, changed: Tensor
) -> list[float]:
    """Local over global rate of the first layer's filters, place by place.

    ``moved`` says where a place goes.
    """
    with torch.no_grad():
        first, second = model(images), model(changed)
    rates = []
    for c in range(first.shape[1]):
        limit = float(found.layers[0].threshold[c])
        strength = (
            (lambda v: abs(v)) if found.layers[0].unit == "crelu" else (lambda v: max(v, 0.0))
        )
        fired = looked = again = 0
        for n in range(len(images)):
            for i in range(first.shape[2]):
                for j in range(first.shape[3]):
                    if not strength(float(first[n, c, i, j])) > limit:
                        continue
                    fired += 1
                    to = moved(j) if location == "moved" else j
                    if 0 <= to < first.shape[3]:
                        looked += 1
                        again += strength(float(second[n, c, i, to])) > limit
        rate = fired / (len(images) * first.shape[2] * first.shape[3])
        assert float(found.layers[0].global_rate[c]) == pytest.approx(rate)
        rates.append(again / looked / rate if looked else math.nan)
    return rates


@pytest.mark.parametrize("location", ["moved", "same"])
@pytest.mark.parametrize("unit", ["relu", "crelu"])
def test_scores_are_those_of_loops_over_places(unit: str, location: str) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(2, 3, 3, padding=1)
    images = torch.randn(6, 2, 8, 8)
    model = nn.Sequential(conv, nn.ReLU(inplace=True) if unit == "relu" else gw.nn.CReLU())
    shifted = torch.zeros_like(images)
    shifted[..., 2:] = images[..., :-2]
    cases = {
        "flip": (FLIP, images.flip(-1), lambda j: 7 - j),
        "right": (shift(2, 8), shifted, lambda j: j + 2),
    }
    for name, (theta, changed, moved) in cases.items():
        found = gw.analysis.invariance(
            model, [images[:4], images[4:]], transforms={name: theta}, rate=0.1, location=location
        )
        want = loops(conv, images, found, location, moved, changed)
        assert found.layers[0].score.tolist() == pytest.approx(want, nan_ok=True)
        assert found.layers[0].global_rate.tolist() == pytest.approx([0.1] * 3, abs=0.01)


def test_a_filter_that_does_not_mind_has_the_largest_score_there_is_and_a_random_one_scores_1() -> (
    None
):
    class Mean(nn.Module):
        """The same number everywhere: an image's mean, which no flip changes."""

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(
                x.mean((1, 2, 3), keepdim=True).expand(-1, 1, *x.shape[2:]).contiguous()
            )

    images = torch.randn(100, 1, 6, 6)
    found = gw.analysis.invariance(Mean(), [images], transforms={"flip": FLIP}, rate=0.1)
    assert float(found.layers[0].score) == pytest.approx(1 / float(found.layers[0].global_rate))

    noise = nn.Sequential(nn.Conv2d(1, 1, 1), nn.ReLU())
    pixels = torch.randn(60, 1, 40, 40, generator=torch.Generator().manual_seed(1))
    flipped = gw.analysis.invariance(
        noise, [pixels], transforms={"flip": FLIP}, rate=0.05, location="same"
    ).layers[0]
    fired = float(flipped.global_rate) * pixels.numel()
    spread = (
        math.sqrt(0.05 * 0.95 / fired) / 0.05
    )  # of L / G, firings being independent but for the pairing (x 2)
    assert float(flipped.score) == pytest.approx(1, abs=5 * math.sqrt(2) * spread)
    follows = gw.analysis.invariance(noise, [pixels], transforms={"flip": FLIP}, rate=0.05).layers[
        0
    ]
    assert float(follows.score) == pytest.approx(1 / float(follows.global_rate))


def test_a_convolution_follows_a_shift_and_at_the_same_place_only_pooling_helps() -> None:
    torch.manual_seed(0)
    images = nn.functional.avg_pool2d(torch.randn(40, 1, 36, 36), 5, 1)
    plain = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU())
    pooled = nn.Sequential(plain[0], nn.MaxPool2d(4, 1), nn.ReLU())
    one = {"right": shift(1, 32)}
    moved = gw.analysis.invariance(plain, [images], transforms=one).layers[0]
    assert moved.mean > 0.9 / 0.01 * 0.9
    at_once, after = (
        gw.analysis.invariance(m, [images], transforms=one, location="same").layers[0].mean
        for m in (plain, pooled)
    )
    assert after > 1.2 * at_once


def test_standard_transforms_turn_and_shift_as_they_say() -> None:
    from gatewise.analysis.gating import standard_warps, warp

    image = torch.zeros(1, 1, 20, 30)
    image[0, 0, 10, 25] = 1.0
    found = {name: warp(image, theta, "bilinear") for name, theta in standard_warps(20, 30).items()}
    places = {name: divmod(int(each.argmax()), 30) for name, each in found.items()}
    assert places["flip"] == (10, 4) and places["left"] == (10, 22) and places["right"] == (10, 28)
    assert places["up"] == (7, 25) and places["down"] == (13, 25)
    # 10.5 right and 0.5 below the centre, turned clockwise by 15 degrees about it, the pixels being
    # square
    turned = [
        10.5 * math.cos(math.radians(15)) - 0.5 * math.sin(math.radians(15)) + 14.5,
        10.5 * math.sin(math.radians(15)) + 0.5 * math.cos(math.radians(15)) + 9.5,
    ]
    assert places["rotate"] == (
        pytest.approx(turned[1], abs=0.6),
        pytest.approx(turned[0], abs=0.6),
    )
    crops = gw.analysis.corner_crops(0.5)
    quarter = warp(torch.arange(16.0).reshape(1, 1, 4, 4), crops["top left"], "nearest")
    assert torch.equal(
        quarter[0, 0], torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1], [4, 4, 5, 5], [4, 4, 5, 5]])
    )


def test_thresholds_are_quantiles_within_a_bucket() -> None:
    values = torch.randn(3, 50000, generator=torch.Generator().manual_seed(0)).abs() * torch.tensor(
        [[1e-3], [1], [50]]
    )
    values[1, 1000:] *= 0  # fires more often than 1 %
    values[2, 100:] = 0  # fires less often
    histogram = SizeHistogram(3)
    for part in values.split(7000, 1):
        histogram.add(part)
    found = histogram.exceeded_by(0.01)
    assert float(found[0]) == pytest.approx(float(values[0].double().quantile(0.99)), rel=2e-3)
    assert float(found[1]) == pytest.approx(float(values[1].double().quantile(0.99)), rel=1e-2)
    assert float(found[2]) == 0


def test_the_default_answers_prints_saves_and_draws_and_tells_progress() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 14 * 14, 5), nn.ReLU()
    )
    told = []
    batches = [torch.randn(3, 3, 16, 16)] * 2
    found = gw.analysis.invariance(
        model, batches, progress=lambda done, total: told.append((done, total))
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (
        found.transforms == ("flip", "rotate", "left", "right", "up", "down")
        and len(found.layers) == 1
    )
    assert "not maps of an image" in found.left_out[0] and "score" in repr(found)
    assert found.plot() is not None and "<pre>" in found._repr_html_()
    assert found.to_dict()["layers"][0]["layer"] == "1"


def test_what_cannot_be_answered_is_said() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    images = torch.randn(2, 3, 8, 8)
    with pytest.raises(ArgumentError, match="twice"):
        gw.analysis.invariance(model, iter([images]))
    with pytest.raises(ArgumentError, match="rate"):
        gw.analysis.invariance(model, [images], rate=0.0)
    with pytest.raises(ArgumentError, match="location"):
        gw.analysis.invariance(model, [images], location="there")
    with pytest.raises(ArgumentError, match="affine map"):
        gw.analysis.invariance(model, [images], transforms={"odd": torch.eye(3)})
    with pytest.raises(ArgumentError, match="must be images"):
        gw.analysis.invariance(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), [torch.randn(2, 3)])
