"""Static phase selective layers put into a model: each output of a reader reads one phase."""

import math

import pytest
import torch
from gatewise_papers import psc
from loops import for_each
from studies.own_networks import digits
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.proof import SwapFailed
from gatewise.surgery.tools import DeployReceipt


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 6, 3, groups=2),
        nn.LeakyReLU(0.1),
        nn.Flatten(),
        nn.Linear(6 * 36, 7),
    )


def images() -> Tensor:
    return torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def by_hand(model: nn.Sequential, x: Tensor, share: float) -> Tensor:
    """The swapped network from the original's layers: rows below the boundary see max(x, 0)."""
    conv1, norm, _, pool, conv2, _, flat, head = model

    def split(layer: nn.Module, x: Tensor) -> Tensor:
        rows = len(layer.get_parameter("weight"))
        positive = torch.arange(rows) < math.floor(share * rows + 0.5)
        positive = positive.view(-1, *[1] * (x.dim() - 2))
        return torch.where(positive, layer(x.relu()), layer(x - x.relu()))

    return split(head, flat(split(conv2, pool(norm(conv1(x))))))


@for_each("split", ["learned", 0.5, 0.3, 0.0, 1.0])
def test_outputs_are_those_of_the_formula_and_the_receipt_is_proved(split):
    model, x = network().eval(), images()
    state = torch.random.get_rng_state()
    swapped = gw.swap(model, "static_psc", x, split=split)
    assert torch.equal(state, torch.random.get_rng_state())
    want = by_hand(model.double(), x.double(), 0.5 if split == "learned" else split)
    assert torch.allclose(swapped.double()(x.double()), want, rtol=1e-12, atol=1e-12)
    receipt = gw.receipt(swapped)
    assert str(receipt).startswith("CHECKED")
    assert receipt.parameters[1] == sum(value.numel() for value in swapped.parameters())
    assert (receipt.parameters[0] == receipt.parameters[1]) == (split != "learned")


def test_a_wrong_second_weight_fails_the_proof(monkeypatch):
    sharing = psc.StaticPSConv2d.sharing.__func__

    def wrong(cls, layer, *, split):
        new = sharing(cls, layer, split=split)
        with torch.no_grad():
            new.weight_neg.mul_(1.01)
        return new

    monkeypatch.setattr(psc.StaticPSConv2d, "sharing", classmethod(wrong))
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.swap(network(), "static_psc", images())


def test_plans_are_written_and_read_and_swaps_are_undone():
    model, x = network().eval(), images()
    plan = gw.plan(model, "static_psc", x, split=0.25)
    again = type(plan).from_json(plan.to_json())
    assert {path: value["split"] for path, value in again.replaced.items()} == {
        "4": 0.25,
        "7": 0.25,
    }
    assert list(again.replaced) == ["4", "7"] and not again.layers
    swapped = again.apply(model, inplace=False, example=x)
    assert torch.equal(gw.undo(swapped)(x), model(x))


def test_a_state_dict_of_the_original_gives_both_phases_its_weights():
    swapped = gw.swap(network(), "static_psc", images())
    other = network()
    weight = other.get_parameter("4.weight")
    nn.init.normal_(weight)
    swapped.load_state_dict(other.state_dict())
    assert torch.equal(swapped.get_parameter("4.weight"), weight)
    assert torch.equal(swapped.get_parameter("4.weight_neg"), weight)


def test_requests_that_cannot_be_met_are_refused():
    model, x = network(), images()
    with pytest.raises(ArgumentError, match="relu by static_psc"):
        gw.plan(model, "static_psc", x, preserve=True)
    with pytest.raises(ArgumentError, match=r"split is not allowed; got: 2; allowed: 'learned'"):
        gw.plan(model, "static_psc", x, split=2)
    with pytest.raises(ArgumentError, match="no such option"):
        gw.plan(model, "static_psc", x, put_back=True)
    with pytest.raises(ArgumentError, match="one plan has one split"):
        several = {"2": ("static_psc", {"split": 0.5}), "5": ("static_psc", {"split": 0.25})}
        gw.plan(model, several, x)


def test_both_kinds_of_phase_selection_go_into_one_model():
    swapped = gw.swap(network(), {"2": "psc", "5": "static_psc"}, images())
    assert type(swapped.get_submodule("4")) is gw.nn.PSConv2d
    assert type(swapped.get_submodule("7")) is psc.StaticPSLinear


def test_one_layer_cannot_read_sites_of_both_kinds():
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(8, 2)
            self.first, self.second = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.c(torch.cat((self.first(self.a(x)), self.second(self.b(x))), 1))

    with pytest.raises(ArgumentError, match="reads sites of psc and of static_psc"):
        gw.plan(Both(), {"first": "psc", "second": "static_psc"}, torch.randn(3, 4))


def test_a_comparison_trains_it_and_the_split_settles_and_is_deployed():
    """The last split is nearly certain, so the deployed network is the trained one."""
    kept = []

    def net() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10))

    def evaluate(model: nn.Module, loader) -> dict[str, float]:
        kept.append(model)
        right = [(model(a).argmax(1) == b).float().mean() for a, b in loader]
        return {"accuracy": float(torch.stack(right).mean())}

    data = digits()
    result = gw.compare(
        net, ["static_psc"], data, seeds=2, rates=1, epochs=4, progress=False, evaluate=evaluate
    )
    assert result.units[1] == "static_psc"
    trained = next(model for model in reversed(kept) if psc.learned_splits(model))
    (layer,) = psc.learned_splits(trained)
    assert layer.confidence() > 0.9
    x = data[1][0]
    deployed = gw.surgery.deploy(trained.eval(), x)
    receipt = gw.receipt(deployed)
    assert isinstance(receipt, DeployReceipt) and receipt.pruned == ("3",)
    assert torch.equal(deployed(x), trained(x))
    assert sum(v.numel() for v in deployed.parameters()) == sum(
        v.numel() for v in net().parameters()
    )
