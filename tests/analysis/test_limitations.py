"""Analyses that do not apply say why by a type: the same reason, whatever the message says."""

import pickle

import pytest
import torch
from gatewise_papers import deep_gated, iieu
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, Limitation, NotApplicableError


def network(last: nn.Module | None = None) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2), *([last] if last else [])]
    return nn.Sequential(*layers).eval()


X = torch.randn(5, 4, generator=torch.Generator().manual_seed(1))
SQUARE = nn.Conv2d(3, 4, 3)
IMAGES = torch.randn(2, 3, 8, 8)
CASES = {
    "plane": (lambda: gw.analysis.partition(network(), torch.zeros(3, 4)), Limitation.ON_ONE_LINE),
    "regions": (
        lambda: gw.analysis.partition(network(), X[:3], limit=1),
        Limitation.TOO_MANY_REGIONS,
    ),
    "layer norm": (
        lambda: gw.analysis.partition(network(nn.LayerNorm(2)), X[:3]),
        Limitation.UNSUPPORTED_OPERATOR,
    ),
    "kernel": (lambda: gw.analysis.ntk(network(), X, memory=10), Limitation.TOO_LARGE),
    "dropout": (
        lambda: gw.analysis.ntk(network(nn.Dropout()).train(), X),
        Limitation.UNSUPPORTED_MODEL,
    ),
    "map": (lambda: gw.analysis.affine_map(network(), X, memory=10), Limitation.TOO_LARGE),
    "overlap": (lambda: gw.analysis.gate_overlap(network(), [X], memory=1), Limitation.TOO_LARGE),
    "no gates": (lambda: gw.gates(nn.Linear(4, 2), [X]), Limitation.NO_GATES),
    "rows": (lambda: gw.analysis.invariance(nn.ReLU(), [IMAGES.flatten(1)[:, :4]]), None),
    "no filters": (lambda: gw.analysis.pairing(nn.ReLU()), Limitation.NO_FILTERS),
    "two filters": (lambda: gw.analysis.pairing(nn.Linear(4, 2)), Limitation.NO_FILTERS),
    "two numbers": (lambda: iieu.properties("crelu"), Limitation.UNSUPPORTED_UNIT),
    "abs": (
        lambda: gw.analysis.reconstruct(SQUARE, IMAGES, unit="abs"),
        Limitation.UNSUPPORTED_UNIT,
    ),
    "singular": (
        lambda: deep_gated.alignment(torch.ones(3, 3), torch.ones(3)),
        Limitation.SINGULAR_KERNEL,
    ),
    "wrong argument": (lambda: gw.analysis.pairing(network(), draws=0), None),
}


@pytest.mark.parametrize("case", CASES)
def test_an_analysis_that_does_not_apply_gives_its_limitation(case: str) -> None:
    """A wrong argument is an error of the caller, without a limitation."""
    run, limitation = CASES[case]
    with pytest.raises(ArgumentError) as caught:
        run()
    assert getattr(caught.value, "limitation", None) is limitation


def test_a_limitation_survives_pickling() -> None:
    error = NotApplicableError(Limitation.TOO_LARGE, "ntk: too large", got=3, fix="memory=4")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is NotApplicableError and str(copy) == str(error)
    assert (copy.limitation, copy.what, copy.got, copy.fix) == (
        Limitation.TOO_LARGE,
        "ntk: too large",
        3,
        "memory=4",
    )


def test_only_known_limitations_can_be_given() -> None:
    with pytest.raises(ValueError, match="memory"):
        NotApplicableError("memory")
