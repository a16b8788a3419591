"""The exact partition of a plane.

That its regions are the patterns, all of them, each once, with the right map.
"""

import itertools
import json

import numpy as np
import pytest
import torch
from analysis.max_affine_networks import NAMES, networks
from scipy.optimize import linprog
from torch import Tensor, nn

import gatewise as gw
from gatewise.analysis.planes import native_splitter
from gatewise.errors import ArgumentError

DOUBLE = torch.float64
AXES = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=DOUBLE)
FORMS = [
    "numpy",
    pytest.param("native", marks=pytest.mark.skipif(not native_splitter(), reason="no C compiler")),
]


def three(shape: tuple[int, ...], seed: int = 3) -> Tensor:
    return torch.randn(3, *shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def dense(*widths: int, seed: int = 0, unit: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = [part for a, b in itertools.pairwise(widths) for part in (nn.Linear(a, b), unit())]
    return nn.Sequential(*layers[:-1]).double()


def gates(model: nn.Sequential, x: Tensor) -> np.ndarray:
    """The signs of all responses before units (n, units), from a plain forward pass."""
    found = []
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.ReLU):
                found.append(x > 0)
            x = layer(x)
    return torch.cat(found, 1).numpy()


def shrunk_corners(found: gw.analysis.Partition) -> tuple[Tensor, np.ndarray]:
    """Every vertex, moved a little towards the middle of its region, and the region it is of."""
    owner, middles = found.polygons.owner, found.polygons.middles
    return torch.from_numpy(0.999 * found.polygons.vertices + 0.001 * middles[owner]), owner


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("widths", [(2, 16, 16, 1), (10, 12, 12, 12, 3)])
def test_regions_cover_the_window_and_are_the_patterns_each_once(
    widths: tuple[int, ...], form: str
):
    model = dense(*widths)
    found = gw.analysis.partition(model, three(widths[:1]), extent=4.0, form=form)
    assert float(found.areas.sum()) == pytest.approx(found.slice.area, rel=1e-12)
    assert float(found.areas.min()) > 0
    corners, owner = shrunk_corners(found)
    seen = gates(model, found.slice.inputs(corners))
    own = gates(model, found.slice.inputs(torch.from_numpy(found.polygons.middles)))
    assert (seen == own[owner]).all(), "a unit changes its sign within a region"
    assert len(np.unique(own, axis=0)) == found.count == len(set(found.patterns.tolist())) > 60


@pytest.mark.parametrize("form", FORMS)
def test_a_fine_grid_sees_no_pattern_that_is_not_a_region(form: str):
    model = dense(3, 6, 6, 1)
    found = gw.analysis.partition(model, three((3,)), form=form)
    grid = {tuple(row) for row in gates(model, found.slice.inputs(found.slice.grid(300)))}
    regions = {
        tuple(row)
        for row in gates(model, found.slice.inputs(torch.from_numpy(found.polygons.middles)))
    }
    assert grid <= regions
    cell = found.slice.area / 300**2
    assert len(grid) >= int((found.areas > 30 * cell).sum())


def feasible(model: nn.Sequential, window: gw.analysis.Partition, signs: tuple[int, ...]) -> bool:
    """Whether a pattern contains a ball in the window, by a linear program in (u, v, radius)."""
    plane = window.slice.plane.T.numpy()  # (inputs, 3)
    rows, taken = [], 0
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            plane = layer.weight.detach().numpy() @ plane
            plane[:, 0] += layer.bias.detach().numpy()
        else:
            own = np.array(signs[taken : taken + len(plane)])
            taken += len(plane)
            rows.append(plane * (2 * own - 1)[:, None])
            plane = plane * own[:, None]
    lines = np.concatenate(rows)
    limits = -np.concatenate(
        (lines[:, 1:], -np.linalg.norm(lines[:, 1:], axis=1, keepdims=True)), 1
    )
    box = list(zip(window.slice.low, window.slice.high, strict=True))
    answer = linprog([0, 0, -1], A_ub=limits, b_ub=lines[:, 0], bounds=[*box, (0, None)])
    return answer.status == 0 and -answer.fun > 1e-9


def test_the_regions_are_the_patterns_that_linear_programming_finds():
    model = dense(2, 4, 4, 1, seed=2)
    found = gw.analysis.partition(model, AXES, extent=(-6.0, 6.0, -6.0, 6.0))
    patterns = {
        tuple(row) for row in gates(model, found.slice.inputs(found.centroids)).astype(int).tolist()
    }
    brute = {
        signs for signs in itertools.product((0, 1), repeat=8) if feasible(model, found, signs)
    }
    assert patterns == brute
    assert found.count == len(brute) > 10


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "pools"])
def test_the_map_of_each_region_is_the_affine_map_at_its_centre(name: str, form: str):
    model, shape = networks()[name]
    points = three(shape)
    extent = 0.3 if len(shape) == 3 else 1.5
    found = gw.analysis.partition(model, points, extent=extent, form=form)
    assert float(found.areas.sum()) == pytest.approx(found.slice.area, rel=1e-12)
    there = gw.analysis.affine_map(model, found.slice.inputs(found.centroids))
    A = there.A.flatten(2)
    along = torch.einsum("noi,ki->nko", A, found.slice.axes.flatten(1))
    level = torch.einsum("noi,i->no", A, found.slice.origin.flatten()) + there.b
    torch.testing.assert_close(
        found.maps, torch.cat((level[:, None], along), 1), rtol=1e-12, atol=1e-12
    )
    assert found.count == len(set(found.patterns.tolist())) > 3


@pytest.mark.slow
@pytest.mark.skipif(not native_splitter(), reason="no C compiler")
@pytest.mark.parametrize("name", NAMES)
def test_the_compiled_form_gives_the_same_regions(name: str):
    model, shape = networks()[name]
    extent = 0.5 if len(shape) == 3 else 2.0
    ours, theirs = (
        gw.analysis.partition(model, three(shape), extent=extent, form=form)
        for form in ("native", "numpy")
    )
    a, b = np.argsort(ours.patterns), np.argsort(theirs.patterns)
    assert (ours.form, theirs.form) == ("native", "numpy")
    assert ours.patterns[a].tolist() == theirs.patterns[b].tolist()
    np.testing.assert_allclose(
        ours.areas.numpy()[a], theirs.areas.numpy()[b], rtol=1e-9, atol=1e-14 * ours.slice.area
    )
    np.testing.assert_allclose(ours.maps.numpy()[a], theirs.maps.numpy()[b], rtol=1e-12, atol=1e-12)
    assert len(ours.neighbours()) == len(theirs.neighbours())


@pytest.mark.parametrize("form", FORMS)
def test_regions_are_convex_and_every_point_is_in_one(form: str):
    found = gw.analysis.partition(dense(2, 10, 10, 1), AXES, extent=5.0, form=form)
    polygons = found.polygons
    step = polygons.vertices[polygons.following] - polygons.vertices
    turn = step[:, 0] * step[polygons.following][:, 1] - step[:, 1] * step[polygons.following][:, 0]
    assert turn.min() > -1e-12
    low, high = map(np.array, (found.slice.low, found.slice.high))
    points = low + (high - low) * np.random.default_rng(0).random((500, 2))
    away = points[:, None] - polygons.vertices
    left = step[:, 0] * away[..., 1] - step[:, 1] * away[..., 0]  # (points, vertices)
    inside = np.minimum.reduceat(left, polygons.starts[:-1], axis=1) > 0
    assert (inside.sum(1) == 1).all()


def shared_edges(found: gw.analysis.Partition) -> set[tuple[int, int]]:
    """Pairs of regions with a common piece of edge, by comparing every edge with every other."""
    polygons = found.polygons
    start, end = polygons.vertices, polygons.vertices[polygons.following]
    length = np.linalg.norm(end - start, axis=1)
    along = (end - start) / length[:, None]
    cross = lambda p, d: p[..., 0] * d[..., 1] - p[..., 1] * d[..., 0]  # noqa: E731
    off = np.maximum(
        *(np.abs(cross(each[None] - start[:, None], along[:, None])) for each in (start, end))
    )
    a, b = (((each[None] - start[:, None]) * along[:, None]).sum(-1) for each in (start, end))
    overlap = np.minimum(length[:, None], np.maximum(a, b)) - np.maximum(0, np.minimum(a, b))
    i, j = np.nonzero((off < 1e-9) & (overlap > 1e-7))
    pairs = zip(polygons.owner[i].tolist(), polygons.owner[j].tolist(), strict=True)
    return {(p, q) for p, q in pairs if p < q}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["relu", "maxout", "crelu", "shrinks"])
def test_neighbours_are_the_regions_that_share_an_edge(name: str, form: str):
    model, shape = networks()[name]
    found = gw.analysis.partition(model, three(shape), form=form)
    assert set(map(tuple, found.neighbours().tolist())) == shared_edges(found)


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_decision_boundary_is_crossed_an_odd_number_of_times_between_two_classes(outputs: int):
    model = dense(2, 12, 12, outputs, seed=1)
    with torch.no_grad():
        model[-1].bias -= model(torch.zeros(1, 2).double())[0]  # so that there is a boundary
    found = gw.analysis.partition(model, AXES, extent=4.0)
    segments, regions = found.decision_boundary()
    level = lambda y: y[:, 0] - (y[:, 1] if outputs == 2 else 0)  # noqa: E731
    with torch.no_grad():
        ends = model(found.slice.inputs(segments.flatten(0, 1)))
        assert float(level(ends).abs().max()) < 1e-12
        points = found.slice.grid(40)[
            torch.randperm(1600, generator=torch.Generator().manual_seed(0))[:400]
        ]
        a, b = points[:200], points[200:]
        differ = (
            level(model(found.slice.inputs(a))).sign() != level(model(found.slice.inputs(b))).sign()
        )
    side = lambda p, q, r: (q - p)[..., 0] * (r - p)[..., 1] - (q - p)[..., 1] * (r - p)[..., 0]  # noqa: E731
    p, q = segments[:, 0], segments[:, 1]
    a, b = a[:, None], b[:, None]
    crossed = (side(a, b, p) * side(a, b, q) < 0) & (side(p, q, a) * side(p, q, b) < 0)
    assert torch.equal(crossed.sum(1) % 2 == 1, differ)
    assert 20 < int(differ.sum()) < 180
    assert len(regions) == len(segments) > 5


def changes_on_a_grid(model: nn.Module, found: gw.analysis.Partition, steps: int) -> float:
    """Length of the boundary measured along grid lines.

    How often the answer changes between neighbouring points.
    """
    with torch.no_grad():
        y = model(found.slice.inputs(found.slice.grid(steps)))
    kind = (y.argmax(1) if y.shape[1] > 1 else y[:, 0] > 0).reshape(steps, steps)
    count = int((kind[1:] != kind[:-1]).sum() + (kind[:, 1:] != kind[:, :-1]).sum())
    return count * (found.slice.high[0] - found.slice.low[0]) / steps


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_the_decision_boundary_has_the_edges_on_which_the_answer_changes(outputs: int, form: str):
    model = nn.Sequential(
        *dense(2, 16, outputs), nn.ReLU()
    ).double()  # where all outputs are 0 is an edge of regions
    with torch.no_grad():
        model[2].bias -= 0.2
    found = gw.analysis.partition(model, AXES, extent=(-3.0, 3.0, -3.0, 3.0), form=form)
    segments = found.decision_boundary()[0]
    along = (segments[:, 1] - segments[:, 0]).abs().sum()
    assert float(along) == pytest.approx(changes_on_a_grid(model, found, 400), rel=0.03)
    assert len(segments) > 3


def test_a_sign_that_changes_on_an_edge_alone_is_seen_and_equal_outputs_are_no_boundary():
    model = nn.Sequential(
        nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1, bias=False)
    ).double()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
        model[2].weight.copy_(torch.tensor([[1.0, -1.0]]))  # x0 itself
    segments = gw.analysis.partition(
        model, AXES, extent=(-2.0, 2.0, -1.0, 1.0)
    ).decision_boundary()[0]
    assert sorted(segments[0].tolist()) == [[0.0, -1.0], [0.0, 1.0]] and len(segments) == 1
    twins = dense(2, 12, 2)
    with torch.no_grad():
        twins[2].weight[1], twins[2].bias[1] = twins[2].weight[0], twins[2].bias[0]
    assert not len(gw.analysis.partition(twins, AXES).decision_boundary()[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e-160, 1e-170])
def test_responses_whose_products_are_too_small_divide_all_the_same(size: float, form: str):
    model, points = dense(2, 8, 2), three((2,))
    found = gw.analysis.partition(model, points, form=form)
    with torch.no_grad():
        for each in (model[0].weight, model[0].bias):
            each *= size
        model[2].weight /= size
    small = gw.analysis.partition(model, points, form=form)
    assert small.count == found.count > 10
    assert float(small.areas.sum()) == pytest.approx(small.slice.area, rel=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_neighbours_far_from_the_origin_are_those_near_it(form: str):
    near, far = dense(2, 8, 6, 2), dense(2, 8, 6, 2)
    with torch.no_grad():
        far[0].bias -= far[0].weight.sum(1) * 1000
    one = gw.analysis.partition(near, AXES, extent=(-2.0, 2.0, -2.0, 2.0), form=form)
    two = gw.analysis.partition(far, AXES, extent=(998.0, 1002.0, 998.0, 1002.0), form=form)
    named = [
        {tuple(sorted(found.patterns[list(pair)].tolist())) for pair in found.neighbours().tolist()}
        for found in (one, two)
    ]
    assert named[0] == named[1] and len(named[0]) > 30


class Rounds(nn.Module):
    """A step function, whatever its slopes seem to be."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 8)

    def forward(self, x: Tensor) -> Tensor:
        return (torch.relu(self.first(x)) * 256).to(torch.int32).to(x.dtype) / 256


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (Rounds(), {}, "rounds to whole numbers"),
        (nn.Linear(2, 3, device="meta"), {}, "no weights"),
        (nn.Linear(2, 3), {"limit": 2**64 + 5}, "limit"),
        (nn.Linear(2, 3), {"limit": None}, "limit"),
        (nn.Linear(2, 3), {"extent": (-1e308, 1e308, -1e308, 1e308)}, "beyond 1e\\+100"),
    ],
)
def test_what_has_no_regions_is_told(model: nn.Module, options: dict, said: str, form: str):
    with pytest.raises(ArgumentError, match=said):
        gw.analysis.partition(model, AXES.float(), form=form, **options)


class FourPlanes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.planes = nn.Conv2d(1, 1, 1, bias=False)
        self.spread = nn.Linear(2, 16)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.max_pool2d(
            self.planes(self.spread(x).unflatten(1, (1, 4, 4))), 4
        ).flatten(1)


def test_a_max_pooling_divides_only_where_the_largest_changes():
    torch.manual_seed(4)
    model = FourPlanes().double()
    found = gw.analysis.partition(model, AXES, extent=(-3.0, 3.0, -3.0, 3.0))
    points = found.slice.grid(400)
    with torch.no_grad():
        winners = model.planes.weight.flatten()[0] * model.spread(points)
    assert found.count == len(
        winners.argmax(1).unique()
    )  # each argument of a maximum has one convex cell
    assert found.count > 4


def test_the_window_and_its_coordinates_are_as_asked_for():
    found = gw.analysis.partition(
        nn.Sequential(gw.nn.Abs(), nn.Linear(2, 1)).double(), AXES, extent=(-1.0, 3.0, -2.0, 2.0)
    )
    assert found.count == 4
    assert sorted(found.areas.tolist()) == [2.0, 2.0, 6.0, 6.0]
    assert found.slice.marks.tolist() == AXES.tolist()
    torch.testing.assert_close(found.slice.inputs(found.centroids), found.centroids)
    assert sorted(len(region.vertices) for region in found.regions) == [4, 4, 4, 4]
    again = json.loads(json.dumps(found.to_dict()))
    assert again["count"] == 4 and len(again["maps"]) == 4


def test_dead_and_doubled_units_divide_nothing_twice():
    model = dense(2, 6, 1)
    with torch.no_grad():
        model[0].weight[3:] = -2 * model[0].weight[:3]  # the same lines again
        model[0].bias[3:] = -2 * model[0].bias[:3]
    found = gw.analysis.partition(model, AXES, extent=(-9.0, 9.0, -9.0, 9.0))
    assert found.count == 7  # of three lines in general position
    with torch.no_grad():
        model[0].weight.zero_()
    assert gw.analysis.partition(model, AXES).count == 1


def test_parts_that_are_carried_on_one_after_the_other_are_the_same_partition(
    monkeypatch: pytest.MonkeyPatch,
):
    model = dense(2, 12, 12, 12, 1)
    whole = gw.analysis.partition(model, AXES, extent=4.0)
    monkeypatch.setattr("gatewise.analysis.planes.plane_run.PART", 3 * 12 * 5)
    parts = gw.analysis.partition(model, AXES, extent=4.0)
    assert sorted(parts.patterns) == sorted(whole.patterns)
    assert len(parts.neighbours()) == len(whole.neighbours())


def test_a_maxout_of_three_pieces_divides_only_where_the_largest_changes():
    model, shape = networks()["maxout"]
    found = gw.analysis.partition(model, three(shape))
    with torch.no_grad():
        winners = model[0](found.slice.inputs(found.centroids)).unflatten(1, (-1, 3)).argmax(-1)
    assert len(winners.unique(dim=0)) == found.count > 10
