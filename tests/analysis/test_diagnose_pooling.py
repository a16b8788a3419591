"""Theorem 2.2 in a diagnosis.

One shift a region, eigenvalues against matrices written out, and the bound holds.
"""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        nn.Flatten(),
        nn.LazyLinear(4),
    )


def images() -> Tensor:
    return torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module")
def found() -> gw.analysis.Diagnosis:
    model = network()
    model(images())
    model[1].running_mean += 0.1
    return gw.diagnose(model.eval(), images(), questions=["reconstruction"])


def columns(weight: Tensor, places: list[tuple[int, int, int]]) -> Tensor:
    """Shifted filters, by loops (numbers of an image, shifts)."""
    made = []
    for filter_, row, column in places:
        field = torch.zeros(3, 14, 14, dtype=torch.float64)
        field[:, row : row + 3, column : column + 3] = weight[filter_]
        made.append(field[:, 1:-1, 1:-1].flatten())
    return torch.stack(made, 1)


def by_hand(conv: nn.Conv2d, x: Tensor) -> tuple[float, float, float, float]:
    """Share held, least and largest eigenvalue, and bound of one image (3, 12, 12)."""
    weight = F.normalize(conv.weight.detach().double().flatten(1), dim=1).reshape(conv.weight.shape)
    offset = conv.bias.detach().double() / conv.weight.detach().double().flatten(1).norm(dim=1)
    response = F.conv2d(x.double()[None], weight, padding=1)[0]
    places = []
    for row in range(0, 12, 2):
        for column in range(0, 12, 2):
            part = response[:, row : row + 2, column : column + 2].abs()
            best = int(part.argmax())
            places.append((best // 4, row + best % 4 // 2, column + best % 2))
    shifts = columns(weight, places)
    factors = torch.linalg.pinv(shifts) @ x.double().flatten()
    made = (shifts @ factors).reshape(3, 12, 12)
    after = F.conv2d(made[None], weight, offset, padding=1)[0]
    won = []
    for (filter_, row, column), factor in zip(places, factors.tolist(), strict=True):
        top, left = row // 2 * 2, column // 2 * 2
        part = after[filter_, top : top + 2, left : left + 2] * math.copysign(1.0, factor)
        if float(part.max()) <= 0:
            return float(made.norm() / x.norm()), math.nan, math.nan, math.nan
        best = int(part.argmax())
        won.append((filter_, top + best // 2, left + best % 2))
    least = float(torch.linalg.eigvalsh(shifts.T @ shifts)[0])
    largest = float(torch.linalg.eigvalsh(columns(weight, won).T @ columns(weight, won))[-1])
    return (
        float(made.norm() / x.norm()),
        least,
        largest,
        math.sqrt(max(0.0, largest - least) / least),
    )


def test_eigenvalues_are_those_of_matrices_and_the_loss_is_within_the_bound(found) -> None:
    facts = found["reconstruction"].facts["bound"]
    assert facts["region"] == [2, 2] and facts["side"] == [
        12,
        12,
    ]  # regions that overlap are taken apart
    model = network()
    model(images())
    model[1].running_mean += 0.1
    conv = nn.utils.fusion.fuse_conv_bn_eval(model.eval()[0], model[1])
    known = 0
    for row, x in zip(facts["images"], images(), strict=True):
        assert row["shifts"] == 36
        want = by_hand(conv, x)
        assert row["held"] == pytest.approx(want[0], rel=1e-6)
        if math.isnan(want[3]):
            assert math.isnan(row["bound"])
            continue
        known += 1
        assert (row["least"], row["largest"], row["bound"]) == pytest.approx(want[1:], rel=1e-6)
        assert 0 <= row["ratio"] <= row["bound"] + 1e-6
    assert known


def test_without_pooling_there_is_no_bound() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(500, 2))
    facts = gw.diagnose(model, images(), questions=["reconstruction"])["reconstruction"].facts
    assert facts["bound"] is None and not facts["pooled"]


def test_pooling_of_stride_one_has_no_regions_apart() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 5, 3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(405, 2)
    )
    facts = gw.diagnose(model, images(), questions=["reconstruction"])["reconstruction"].facts
    assert facts["bound"] is None and facts["pooled"]


def test_chance_is_that_of_as_many_responses_as_are_known() -> None:
    model = nn.Sequential(nn.Conv2d(3, 2, 4, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(18, 2))
    facts = gw.diagnose(model, images(), questions=["reconstruction"])["reconstruction"].facts
    kept, whole = 2 * 9, 3 * 144
    log = [math.lgamma(each / 2) for each in (whole - kept + 1, whole, whole - kept, whole + 1)]
    assert facts["by_chance"] == pytest.approx(
        math.exp(log[0] + log[1] - log[2] - log[3]), rel=1e-12
    )
