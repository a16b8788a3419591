"""Partitions of soft networks, pictures, and what is refused."""

import math

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError

AXES = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
SMALL = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))


def test_a_soft_network_has_no_regions_and_is_shaded_by_the_entropy_of_its_gates():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 3), nn.SiLU(), nn.Linear(3, 1)).double()
    found = gw.analysis.partition(model, AXES, steps=9)
    assert isinstance(found, gw.analysis.SoftPartition) and not found.exact
    with torch.no_grad():
        T = torch.sigmoid(model[0](found.slice.inputs(found.slice.grid(9))))
    bits = -(T * T.log() + (1 - T) * (1 - T).log()).mean(1) / math.log(2)
    torch.testing.assert_close(found.entropy.flatten(), bits)
    assert "no regions" in found.plot().get_title() and "soft" in repr(found)
    assert found.to_dict()["exact"] is False


def test_beta_units_are_soft_too():
    found = gw.analysis.partition(
        nn.Sequential(nn.Linear(2, 3), gw.nn.BetaVQ(), nn.Linear(3, 1)), AXES, steps=5
    )
    assert found.entropy.shape == (5, 5) and bool((found.entropy > 0).all())


LINES = [
    "relu",
    "leaky_relu",
    "abs",
    ((-1.0, 0.0, 2.0), (-0.5, 0.25, -1.0)),
    ((2.0, -1.0, 0.5, 0.4), (0.0, 0.0, 0.3, -5.0)),  # the last is nowhere the largest
    ((1.0, 1.0), (0.0, -1.0)),  # one line
]


@pytest.mark.parametrize("lines", LINES, ids=str)
def test_a_beta_of_one_is_the_largest_of_its_lines_and_has_exact_regions(lines):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2, 5),
        gw.nn.BetaVQ(lines, beta=1.0),
        nn.Linear(5, 3),
        gw.nn.BetaVQ(lines, beta=1.0),
    ).double()
    found = gw.analysis.partition(model, AXES, extent=3.0)
    assert isinstance(found, gw.analysis.Partition)
    # The same network, written as a maximum of lines, on many points of the window.
    slopes, offsets = model[1].pieces

    def largest(z: Tensor) -> Tensor:
        return torch.stack([a * z + b for a, b in zip(slopes, offsets, strict=True)]).amax(0)

    with torch.no_grad():
        points = found.centroids
        x = found.slice.inputs(points)
        y = largest(model[2](largest(model[0](x))))
    maps = found.maps
    values = maps[:, 0] + points[:, :1] * maps[:, 1] + points[:, 1:] * maps[:, 2]
    torch.testing.assert_close(values, y, atol=1e-9, rtol=0)
    if lines == "relu":
        plain = nn.Sequential(model[0], nn.ReLU(), model[2], nn.ReLU())
        assert gw.analysis.partition(plain, AXES, extent=3.0).count == found.count
    if lines == LINES[-1]:
        assert found.count == 1


def test_a_beta_that_is_trained_stays_soft():
    unit = gw.nn.BetaVQ("relu", beta=0.9, learn_beta=True)
    found = gw.analysis.partition(nn.Sequential(nn.Linear(2, 3), unit), AXES, steps=5)
    assert isinstance(found, gw.analysis.SoftPartition)


def test_an_exact_partition_is_drawn_with_all_its_polygons():
    found = gw.analysis.partition(SMALL, AXES, extent=5.0)
    axes = found.plot()
    assert len(axes.collections[0].get_paths()) == found.count
    axes.figure.canvas.draw()
    assert str(found.count) in repr(found) and "<code>" in found._repr_html_()


class ViewChanged(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.view(-1, 2) * 1
        half = y[:, :1]
        half.relu_()
        return y


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4)), "no rule.*layer_norm in 1"),
        (ViewChanged(), "view is read later.*relu"),
        (nn.Bilinear(2, 2, 1), "cannot be run"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(model: nn.Module, words: str):
    with pytest.raises(ArgumentError, match=words):
        gw.analysis.partition(model, AXES)


@pytest.mark.parametrize(
    ("points", "options", "words"),
    [
        (torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]), {}, "on one line"),
        (torch.zeros(3, 2), {}, "on one line"),
        (torch.zeros(2, 2), {}, "not three inputs"),
        ([torch.zeros(2), torch.zeros(3), torch.zeros(2)], {}, "not three inputs"),
        (torch.full((3, 2), math.nan), {}, "not three inputs"),
        (AXES, {"extent": 0}, "extent"),
        (AXES, {"extent": (1.0, 0.0, 0.0, 1.0)}, "extent"),
        (AXES, {"limit": 2, "extent": 50.0}, "more regions than limit"),
        (torch.eye(3), {}, "cannot be run"),
    ],
)
def test_bad_arguments_are_named(points: Tensor, options: dict, words: str):
    with pytest.raises(ArgumentError, match=words):
        gw.analysis.partition(SMALL, points, **options)


def test_an_unknown_form_names_the_known_ones():
    with pytest.raises(UnknownNameError, match="native, numpy"):
        gw.analysis.partition(SMALL, AXES, form="numba")


def test_train_mode_is_refused_where_it_matters():
    with pytest.raises(ArgumentError, match=r"train mode.*eval\(\)"):
        gw.analysis.partition(nn.Sequential(nn.Linear(2, 4), nn.Dropout()), AXES)


def test_the_model_keeps_its_dtype_and_its_gradients():
    model = nn.Sequential(nn.Linear(2, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
    gw.analysis.partition(model, AXES)
    assert model[0].weight.dtype == torch.float32 and model[0].weight.grad is None
