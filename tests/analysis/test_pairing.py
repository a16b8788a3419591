"""Pairs of opposite filters: the definition, the chance level, the test."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import gatewise as gw
from gatewise.analysis.pairing import partners
from gatewise.errors import ArgumentError, UnknownNameError


def conv(weight: torch.Tensor) -> nn.Conv2d:
    layer = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2:], bias=False)
    layer.weight.data = weight
    return layer


def test_partner_and_correlation_are_the_definition_in_a_double_loop() -> None:
    rows = torch.randn(12, 7, dtype=torch.float64)
    where, lowest = partners(rows)
    for i in range(12):
        cosines = [float(rows[i] @ rows[j] / rows[i].norm() / rows[j].norm()) for j in range(12) if j != i]
        others = [j for j in range(12) if j != i]
        assert lowest[i].item() == pytest.approx(min(cosines), abs=1e-14)
        assert where[i].item() == others[int(np.argmin(cosines))]


def test_filters_and_their_negatives_pair_exactly_whatever_their_lengths() -> None:
    half = torch.randn(8, 3, 3, 3)
    found = gw.pairing(conv(torch.cat((half, -3 * half)))).layers[0]
    assert found.partner.tolist() == [*range(8, 16), *range(8)]
    torch.testing.assert_close(found.correlation, -torch.ones(16, dtype=torch.float64))
    assert found.p_value < 1e-6


def test_random_filters_are_not_said_to_pair_and_p_values_are_uniform() -> None:
    generator = torch.Generator().manual_seed(1)
    p = [
        gw.pairing(conv(torch.randn(16, 2, 3, 3, generator=generator)), seed=seed).layers[0].p_value
        for seed in range(150)
    ]
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_holms_correction_is_that_of_the_step_down_rule() -> None:
    model = nn.Sequential(*(conv(torch.randn(8, 2, 3, 3)) for _ in range(5)))
    found = gw.pairing(model)
    raw = np.array([layer.p_value for layer in found.layers])
    order = np.argsort(raw)
    want = np.minimum(1, np.maximum.accumulate(raw[order] * (5 - np.arange(5))))
    np.testing.assert_allclose(np.array(found.p_values)[order], want)


def test_a_zero_filter_has_no_partner_and_does_not_spoil_the_others() -> None:
    weight = torch.randn(6, 1, 3, 3)
    weight[2] = 0
    found = gw.pairing(conv(weight)).layers[0]
    assert found.zero_filters == 1 and found.correlation.isnan().tolist() == [False, False, True, False, False, False]
    assert 2 not in found.partner[[0, 1, 3, 4, 5]].tolist()
    assert found.mean == pytest.approx(float(partners(weight[[0, 1, 3, 4, 5]].flatten(1).double())[1].mean()))


def test_the_record_prints_saves_and_draws(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 2, 3), nn.Conv2d(8, 9, 3))
    found = gw.pairing(model)
    assert found.left_out == ("1",) and "fewer than three" in repr(found)
    record = found.to_dict()
    assert [row["layer"] for row in record["layers"]] == ["0", "2"] and record["layers"][0]["filters"] == 8
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
        gw.pairing(nn.ReLU())
    with pytest.raises(ArgumentError, match="where matches no layer"):
        gw.pairing(nn.Conv2d(1, 4, 3), where="features.*")
    with pytest.raises(ArgumentError, match="draws"):
        gw.pairing(nn.Conv2d(1, 4, 3), draws=1)
    with pytest.raises(ArgumentError, match="not finite"):
        gw.pairing(conv(torch.full((4, 1, 3, 3), float("nan"))))
    with pytest.raises(ArgumentError, match="three filters"):
        gw.pairing(nn.Conv2d(1, 2, 3))


@pytest.mark.data
def test_the_first_convolution_of_a_trained_squeezenet_pairs_and_a_random_network_does_not() -> None:
    folder = Path(os.environ["GATEWISE_DATA"]) / "pretrained"
    weights = np.load(next(folder.glob("squeezenet*.npz")))
    names = [name for name in weights.files if weights[name].ndim == 4][:4]
    trained = nn.Sequential(*(conv(torch.tensor(weights[name].astype(np.float32))) for name in names))
    random = nn.Sequential(*(conv(torch.randn(weights[name].shape)) for name in names))
    found = gw.pairing(trained)
    assert found.layers[0].mean == pytest.approx(-0.80, abs=0.005)
    assert found.layers[0].chance_mean == pytest.approx(-0.44, abs=0.02)
    assert found.p_values[0] < 1e-10
    assert min(gw.pairing(random).p_values) > 1e-3
