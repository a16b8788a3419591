"""Pairs of opposite filters: the definition, the chance level, the test."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import gatewise as gw
from gatewise.analysis.filters import NEAR, excess, excess_by_chance, p_of_excess, partners
from gatewise.errors import ArgumentError, UnknownNameError


def conv(weight: torch.Tensor) -> nn.Conv2d:
    layer = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2:], bias=False)
    layer.weight.data = weight
    return layer


def test_partner_and_correlation_are_the_definition_in_a_double_loop() -> None:
    rows = torch.randn(12, 7, dtype=torch.float64)
    where, lowest = partners(rows)
    for i in range(12):
        cosines = [
            float(rows[i] @ rows[j] / rows[i].norm() / rows[j].norm()) for j in range(12) if j != i
        ]
        others = [j for j in range(12) if j != i]
        assert lowest[i].item() == pytest.approx(min(cosines), abs=1e-14)
        assert where[i].item() == others[int(np.argmin(cosines))]


def test_filters_and_their_negatives_pair_exactly_whatever_their_lengths() -> None:
    half = torch.randn(8, 3, 3, 3)
    found = gw.analysis.pairing(conv(torch.cat((half, -3 * half)))).layers[0]
    assert found.partner.tolist() == [*range(8, 16), *range(8)]
    torch.testing.assert_close(found.correlation, -torch.ones(16, dtype=torch.float64))
    assert found.p_value < 1e-6


@pytest.mark.slow
def test_random_filters_are_not_said_to_pair_and_p_values_are_uniform() -> None:
    generator = torch.Generator().manual_seed(1)
    p = [
        gw.analysis.pairing(conv(torch.randn(16, 2, 3, 3, generator=generator)), seed=seed)
        .layers[0]
        .p_value
        for seed in range(150)
    ]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def by_loop(rows: torch.Tensor) -> float:
    """How much more opposite than alike, filter by filter."""
    found = []
    for i, one in enumerate(rows):
        cosines = [
            float(one @ other / one.norm() / other.norm()) for j, other in enumerate(rows) if j != i
        ]
        found.append(-min(cosines) - max(cosines))
    return sum(found) / len(found)


def cosines_of(rows: torch.Tensor) -> torch.Tensor:
    unit = nn.functional.normalize(rows, dim=1)
    return unit @ unit.T


@pytest.mark.parametrize("filters", [5, NEAR + 9])
def test_random_signs_are_those_of_the_filters_themselves(filters: int) -> None:
    rows = torch.randn(filters, 6, dtype=torch.float64)
    drawn = excess_by_chance(cosines_of(rows), 4, torch.Generator().manual_seed(3))
    signs = torch.Generator().manual_seed(3)
    for each in drawn.tolist():
        sign = 2.0 * torch.randint(0, 2, (filters, 1), generator=signs) - 1
        assert each == pytest.approx(by_loop(rows * sign), abs=1e-12)
    assert excess(cosines_of(rows)) == pytest.approx(by_loop(rows), abs=1e-12)


def test_random_signs_are_0_on_average_wherever_the_lines_are() -> None:
    rows = torch.randn(12, 40, dtype=torch.float64) + 3.0  # all nearly alike
    drawn = excess_by_chance(cosines_of(rows), 4000, torch.Generator().manual_seed(0))
    assert abs(float(drawn.mean())) < 4 * float(drawn.std()) / 4000**0.5


def test_pairs_have_as_few_outcomes_as_they_are() -> None:
    """Of n exact pairs all are opposite once in 2^n, and the test must not be surer than that."""
    half = torch.randn(4, 300, dtype=torch.float64)
    gram = cosines_of(torch.cat((half, -half)))
    drawn = excess_by_chance(gram, 4000, torch.Generator().manual_seed(0))
    wrong = 4 * (2**-4 * (1 - 2**-4) / 4000) ** 0.5
    assert p_of_excess(excess(gram), drawn) == pytest.approx(2**-4, abs=wrong)


def near_few_lines(filters: int, seed: int) -> torch.Tensor:
    """Filters of rank 2 and some noise, no sign of any apart."""
    generator = torch.Generator().manual_seed(seed)
    plane = torch.randn(2, 27, generator=generator)
    rows = torch.randn(filters, 2, generator=generator) @ plane + 0.3 * torch.randn(
        filters, 27, generator=generator
    )
    return rows.reshape(filters, 3, 3, 3)


@pytest.mark.slow
def test_filters_near_a_few_lines_are_far_from_random_but_no_pairs() -> None:
    found = [gw.analysis.pairing(conv(near_few_lines(32, seed))).layers[0] for seed in range(60)]
    assert max(each.p_value for each in found) < 1e-6 and max(each.mean for each in found) < -0.7
    assert min(each.similar_mean for each in found) > 0.7
    assert stats.kstest([each.p_phases for each in found], "uniform").pvalue > 1e-3


def test_filters_that_are_only_alike_are_no_pairs() -> None:
    alike = gw.analysis.pairing(conv(torch.randn(16, 3, 3, 3) + 1.0)).layers[0]
    assert alike.similar_mean > -alike.mean and alike.p_phases > 0.5


def test_true_pairs_are_found_among_filters_near_a_few_lines() -> None:
    half = near_few_lines(16, seed=0)
    weight = torch.cat(
        (half, -half + 0.1 * torch.randn(half.shape, generator=torch.Generator().manual_seed(1)))
    )
    layer = gw.analysis.pairing(conv(weight)).layers[0]
    assert layer.p_value < 1e-6 and layer.p_phases < 1e-3 and -layer.mean > layer.similar_mean


def test_holms_correction_is_that_of_the_step_down_rule() -> None:
    model = nn.Sequential(*(conv(torch.randn(8, 2, 3, 3)) for _ in range(5)))
    found = gw.analysis.pairing(model)
    raw = np.array([layer.p_value for layer in found.layers])
    order = np.argsort(raw)
    want = np.minimum(1, np.maximum.accumulate(raw[order] * (5 - np.arange(5))))
    np.testing.assert_allclose(np.array(found.p_values)[order], want)
    assert min(found.p_phases) == pytest.approx(
        min(1, 5 * min(layer.p_phases for layer in found.layers))
    )


def test_a_zero_filter_has_no_partner_and_does_not_spoil_the_others() -> None:
    weight = torch.randn(6, 1, 3, 3)
    weight[2] = 0
    found = gw.analysis.pairing(conv(weight)).layers[0]
    assert found.zero_filters == 1 and found.correlation.isnan().tolist() == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    assert 2 not in found.partner[[0, 1, 3, 4, 5]].tolist()
    others = weight[[0, 1, 3, 4, 5]].flatten(1).double()
    assert found.mean == pytest.approx(float(partners(others)[1].mean()))
    assert found.similar_mean == pytest.approx(-by_loop(others) - found.mean)
    assert 0 < found.p_phases < 1


@pytest.mark.parametrize("scale", [1e200, 1e-200, 5e-324 / 2**-40])
def test_cosines_are_the_same_whatever_the_scale(scale: float) -> None:
    weight = torch.randint(-9, 10, (6, 1, 3, 3)).double()  # so that no scale rounds them away
    weight[0], weight[3] = 1e-3 * scale, 0.0
    weight[[1, 2, 4, 5]] *= scale
    found = gw.analysis.pairing(conv(weight)).layers[0]
    want = partners((weight / scale).flatten(1))[1]
    torch.testing.assert_close(found.correlation, want, atol=1e-9, rtol=0, equal_nan=True)
    assert found.zero_filters == 1


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (nn.LazyConv2d(8, 3), "no shape yet"),
        (nn.Conv2d(3, 8, 3, device="meta"), "no values"),
        (nn.Conv2d(3, 8, 3, dtype=torch.complex64), "not real"),
    ],
    ids=["lazy", "meta", "complex"],
)
def test_weights_that_are_no_real_numbers_are_refused(layer: nn.Module, why: str) -> None:
    for question in (gw.analysis.pairing, gw.analysis.orthogonality):
        with pytest.raises(ArgumentError, match=why):
            question(layer)


@pytest.mark.parametrize(
    "wrong", [{"seed": "a"}, {"seed": 2**70}, {"seed": True}, {"where": 3}], ids=str
)
def test_a_wrong_seed_or_choice_is_refused_in_a_line(wrong: dict) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))}[: ]") as found:
        gw.analysis.pairing(nn.Conv2d(3, 8, 3), **wrong)
    assert "\n" not in str(found.value)


def test_a_filter_without_another_has_none_to_pair_with() -> None:
    weight = torch.zeros(3, 1, 3, 3)
    weight[1] = 1.0
    found = gw.analysis.pairing(conv(weight))
    assert found.layers[0].correlation.isnan().all() and found.p_phases == (1.0,)
    row = found.to_dict()["layers"][0]
    assert row["similar"] == [None] * 3 and row["mean"] is None and row["similar_mean"] is None


def test_the_record_prints_saves_and_draws(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 2, 3), nn.Conv2d(8, 9, 3))
    found = gw.analysis.pairing(model)
    assert found.left_out == ("1",) and "fewer than three" in repr(found)
    record = found.to_dict()
    assert [row["layer"] for row in record["layers"]] == ["0", "2"] and record["layers"][0][
        "filters"
    ] == 8
    assert "<pre>" in found._repr_html_()
    panels = found.plot()
    assert sum(panel.get_visible() for panel in panels) == 2
    found.picture().savefig(tmp_path / "pairs.png")
    with pytest.raises(ArgumentError, match="colour or grey"):
        found.picture("2")
    with pytest.raises(UnknownNameError):
        found.picture("5")


def test_what_cannot_be_asked_is_refused_by_name() -> None:
    with pytest.raises(ArgumentError, match="no convolution"):
        gw.analysis.pairing(nn.ReLU())
    with pytest.raises(ArgumentError, match="where matches no layer"):
        gw.analysis.pairing(nn.Conv2d(1, 4, 3), where="features.*")
    with pytest.raises(ArgumentError, match="draws"):
        gw.analysis.pairing(nn.Conv2d(1, 4, 3), draws=1)
    with pytest.raises(ArgumentError, match="not finite"):
        gw.analysis.pairing(conv(torch.full((4, 1, 3, 3), float("nan"))))
    with pytest.raises(ArgumentError, match="three filters"):
        gw.analysis.pairing(nn.Conv2d(1, 2, 3))


@pytest.mark.data
def test_the_first_convolution_of_a_trained_squeezenet_pairs_and_a_random_network_does_not() -> (
    None
):
    folder = Path(os.environ["GATEWISE_DATA"]) / "pretrained"
    weights = np.load(next(folder.glob("squeezenet*.npz")))
    names = [name for name in weights.files if weights[name].ndim == 4][:4]
    trained = nn.Sequential(
        *(conv(torch.tensor(weights[name].astype(np.float32))) for name in names)
    )
    random = nn.Sequential(*(conv(torch.randn(weights[name].shape)) for name in names))
    found = gw.analysis.pairing(trained)
    assert found.layers[0].mean == pytest.approx(-0.80, abs=0.005)
    assert found.layers[0].chance_mean == pytest.approx(-0.44, abs=0.02)
    assert found.p_values[0] < 1e-10
    assert (
        found.layers[0].similar_mean == pytest.approx(0.62, abs=0.005) and found.p_phases[0] < 1e-3
    )
    assert (
        found.layers[2].mean < -0.6 and found.p_values[2] < 1e-6 and found.p_phases[2] > 0.05
    )  # no pairs
    chance = gw.analysis.pairing(random)
    assert min(*chance.p_values, *chance.p_phases) > 1e-3


def test_a_diagnosis_covers_linear_layers_before_a_unit() -> None:
    torch.manual_seed(0)
    patches = [nn.Conv2d(3, 8, 4, 4), nn.Flatten(2), nn.Linear(4, 16), nn.GELU()]
    model = nn.Sequential(*patches, nn.Flatten(), nn.Linear(128, 5)).eval()
    found = gw.diagnose(model, torch.randn(4, 3, 8, 8), questions=["pairing"])
    assert [row["layer"] for row in found["pairing"].facts["layers"]] == ["0", "2"]
    assert gw.analysis.pairing(model, where="2").layers[0].name == "2"
