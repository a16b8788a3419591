"""A swap is one class in one file: everything else finds it by its name."""

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.graph import replacing
from gatewise.surgery import Plan
from gatewise.surgery.planning import SiteSwap, swap_interface

FILE = '''
"""A toy swap: the activation scaled by a number."""

from torch import nn

from gatewise.graph import replacing
from gatewise.surgery.planning import SiteSwap


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * x.clamp(min=0)


class ScaledSwap(SiteSwap):
    names = ("toy_scaled",)

    def choose(self, context, site, request):
        return {"factor": request.options.get("factor", 2.0)}

    def build(self, entry, old, like):
        return Scaled(**entry.options)

    def replacements(self, entries, reading, model, units):
        return replacing((reading.site_nodes[entry.site], units[entry.site]) for entry in entries)
'''


@pytest.fixture
def toy(tmp_path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a swap whose file is imported, as ``swaps/__init__.py`` imports the others."""
    (tmp_path / "toy_swap_file.py").write_text(FILE)
    monkeypatch.syspath_prepend(tmp_path)
    __import__("toy_swap_file")
    yield "toy_scaled"
    del swap_interface._SWAPS["toy_scaled"]
    del sys.modules["toy_swap_file"]


def test_a_new_swap_is_planned_applied_proved_written_and_undone(toy: str):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU()).eval()
    x = torch.randn(3, 4)
    plan = gw.plan(model, toy, x, factor=3.0)
    assert "relu to toy_scaled" in str(plan)
    changed = Plan.from_json(plan.to_json()).apply(model, inplace=False, example=x)
    expected = 3 * model[2](3 * model[0](x).relu()).relu()
    assert torch.allclose(changed(x), expected)
    assert gw.receipt(plan.apply(model, inplace=False)).proof.against_reference <= 1e-6
    assert torch.equal(gw.undo(changed)(x), model(x))
    mixed = gw.swap(model, {"1": toy, "3": "mish"}, x)
    assert torch.allclose(mixed(x), nn.functional.mish(model[2](2 * model[0](x).relu())))


def test_the_names_of_all_swaps_are_offered(toy: str):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU())
    with pytest.raises(ArgumentError, match="did you mean 'toy_scaled'"):
        gw.plan(model, "toy_scale", torch.randn(3, 4))


def test_an_interface_without_its_methods_is_an_error():
    class Half(SiteSwap):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half("half")
    assert replacing(()) == {}
