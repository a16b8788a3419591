"""Paper 001: its forms computed in two ways, the runs of Table 2, and when claims hold."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gatewise_papers.all_experiments import experiments, find_experiment
from gatewise_papers.maso.experiments import figure1, published, simplex_maximum, table2
from loops import for_each
from torch import nn

import gatewise as gw


@pytest.mark.parametrize(("name", "compared"), [("maso/figure1", 9), ("maso/table1", 12)])
def test_units_search_and_torch_agree(name: str, compared: int, tmp_path: Path):
    result = find_experiment(name).run("tiny", 1, tmp_path)
    rows = [row for row in result.findings.rows if row.agrees is not None]
    assert len(rows) == compared and not result.failed
    assert {claim.verdict.value for claim in result.findings.claims} == {"supported"}


@for_each("beta", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_the_search_finds_the_softmax(beta: float):
    numbers = [0.4, -1.2, 2.0, 1.9]
    found = simplex_maximum.best_weights(numbers, beta)
    assert sum(found) == pytest.approx(1) and min(found) >= 0
    steepness = math.inf if beta == 1 else beta / (1 - beta)
    if beta == 1:
        assert found == [0, 0, 1, 0]
    else:
        want = torch.softmax(steepness * torch.tensor(numbers, dtype=torch.float64), 0)
        assert found == pytest.approx(want.tolist(), abs=10 * simplex_maximum.NEAR)


def test_a_parabola_is_convex_and_a_wave_is_not():
    assert not figure1.is_nonconvex([x * x for x in range(-5, 6)])
    assert figure1.is_nonconvex([math.sin(x) for x in range(-5, 6)])
    assert not figure1.is_nonconvex([2.0 * x for x in range(-5, 6)])


def test_the_penalty_is_the_only_difference_of_a_pair():
    sizes = experiments()["maso/table2"].scales["full"]
    training = sizes.trainings["CIFAR-10"]
    plain, ortho = (
        training.config("large_cnn", 0, changes=c) for c in ((), ("orthogonality.weight = 1.0",))
    )
    assert ortho.recipe.orthogonality.weight == 1 and plain.recipe.orthogonality.weight == 0
    assert ortho.recipe.orthogonality.pieces == "relu"
    assert (
        ortho.recipe.model_copy(update={"orthogonality": plain.recipe.orthogonality})
        == plain.recipe
    )


def test_every_printed_accuracy_has_its_row_and_no_other_scale_has_it():
    sizes = experiments()["maso/table2"].scales["full"]
    row = table2._row(sizes, "CIFAR-100 ortho, rate 0.0005", [0.5])
    assert row.published == pytest.approx(0.463)
    assert table2._row(sizes, table2._exact(sizes), [0.5]).published == pytest.approx(0.612)
    desk = experiments()["maso/table2"].scales["desk"]
    assert table2._row(desk, "CIFAR-100 ortho, rate 0.0005", [0.5]).published is None


def test_the_penalty_must_help_at_every_rate():
    full = experiments()["maso/table2"].scales["full"]
    trainings = {data: full.trainings[data] for data in ("CIFAR-10", "CIFAR-100")}
    sizes = replace(full, trainings=trainings)
    test = {
        table2.name_of(data, kind, rate): [
            0.5 + 0.1 * (kind == "ortho") + 0.01 * s * (kind == "ortho") for s in range(3)
        ]
        for data in sizes.trainings
        for kind in ("baseline", "ortho")
        for rate in published.RATES
    } | {table2._exact(sizes): [0.7, 0.71, 0.73]}
    control = table2.name_of("CIFAR-100", table2.SWISH, published.RATES[0])
    test[control] = [0.6, 0.62, 0.61]
    assert [claim.verdict.value for claim in table2.claims(sizes, test)] == ["supported"] * 4
    worse = test | {
        "CIFAR-10 ortho, rate 0.0001": [0.40, 0.41, 0.40],
        table2._exact(sizes): [0.5, 0.6, 0.7],
    }
    assert [claim.verdict.value for claim in table2.claims(sizes, worse)] == [
        "contradicted",
        "supported",
        "undecided",
        "undecided",
    ]


def test_the_desk_has_one_rate_and_makes_filters_orthogonal_on_cifar_10():
    sizes = experiments()["maso/table2"].scales["desk"]
    table = table2.networks(sizes, (0,))
    assert set(table) == {
        "CIFAR-10 baseline, rate 0.001",
        "CIFAR-10 ortho, rate 0.001",
        "CIFAR-10 Gram-Schmidt and swish, rate 0.001",
        "CIFAR-100 baseline, rate 0.001",
        "CIFAR-100 ortho, rate 0.001",
    }
    test = {name: [0.5, 0.51, 0.52, 0.5] for name in table}
    test[table2._exact(sizes)] = [0.7, 0.71, 0.73, 0.7]
    *_, best, swish = table2.claims(sizes, test)
    assert best.verdict.value == "supported" and best.published.endswith("here on CIFAR-10")
    assert len(best.compared) == 2 and swish.verdict.value == "not tested"
    levels = {level.row: level for level in experiments()["maso/table2"].levels}
    decisive = levels["training accuracy, CIFAR-10 baseline, rate 0.001"]
    assert decisive.at_least == 0.99 and decisive.decides(best)


def test_at_the_desk_conv1_cannot_be_orthogonal_and_the_classifier_of_20_classes_can():
    network = gw.models.create_model("large_cnn", scale=1 / 3, classes=20)
    first, *_, last = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert first.weight[0].numel() == 27 < first.weight.shape[0]
    assert last.weight.shape[0] == 20 <= last.weight[0].numel()
