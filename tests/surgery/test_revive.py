"""Revived units compute something new, and the network the same as before."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.revival import reviving


class Convolutions(nn.Module):
    """A batch norm before, and pooling and flattening after the units that die."""

    def __init__(self, bias=True):
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3, padding=1, bias=bias)
        self.norm = nn.BatchNorm2d(6)
        self.second = nn.Conv2d(6, 5, 3, padding=1, bias=bias)
        self.head = nn.Linear(5 * 16, 4)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        h = F.relu(self.second(h), inplace=True)
        return self.head(h.flatten(1))


def mlp(bias=True):
    return nn.Sequential(
        nn.Linear(8, 16, bias=bias),
        nn.ReLU(),
        nn.Linear(16, 12, bias=bias),
        nn.ReLU(),
        nn.Linear(12, 3),
    )


def kill(layer, units):
    """Make units of a layer negative for every input of positive numbers."""
    with torch.no_grad():
        layer.weight[units] = -layer.weight[units].abs() - 0.01
        if layer.bias is not None:
            layer.bias[units] = -1.0


def dead_mlp(bias=True):
    torch.manual_seed(0)
    model = mlp(bias)
    if bias:
        nn.init.constant_(model[2].bias, 0.5)  # no other unit is dead
    kill(model[0], [1, 4, 5])
    kill(model[2], [0, 11])
    return model, torch.rand(64, 8)


def dead_convolutions(bias=True):
    torch.manual_seed(0)
    model = Convolutions(bias)
    with torch.no_grad():
        model.norm.bias[2] = -90.0
    kill(model.second, [0, 3])
    return model, torch.rand(32, 3, 8, 8)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("make", [dead_mlp, dead_convolutions])
def test_the_output_stays_and_the_units_are_on(make, bias):
    model, x = make(bias)
    old = copy.deepcopy(model).eval()
    gates = [site.dead for site in gw.gates(model, x).sites]
    assert all(gates)
    receipt = gw.revive(model, x)
    assert [site.units for site in receipt.sites] == gates
    assert receipt.units == sum(map(len, gates))
    assert receipt.refused == {}
    # In float64: the difference is that of the functions, not of rounding.
    exact = copy.deepcopy(model).double().eval()(x.double())
    torch.testing.assert_close(exact, old.double()(x.double()), rtol=1e-12, atol=1e-12)
    assert receipt.difference <= 1e-6
    assert not any(site.dead for site in gw.gates(model, x).sites)
    for site in receipt.sites:
        assert 0.2 < site.on_rate <= 1.0


def test_only_the_rows_and_columns_of_dead_units_change():
    model, x = dead_mlp()
    old = copy.deepcopy(model.state_dict())
    receipt = gw.revive(model, x)
    changed = {}
    for name, value in model.state_dict().items():
        different = value != old[name]
        if bool(different.any()):
            changed[name] = different
    rows = changed["0.weight"].any(1).nonzero().flatten().tolist()
    assert rows == [1, 4, 5]
    assert set(changed) == {"0.weight", "0.bias", "2.weight", "2.bias", "4.weight"}
    assert changed["4.weight"].any(0).nonzero().flatten().tolist() == [0, 11]
    assert not model[4].weight[:, [0, 11]].any()
    assert not model[2].weight[:, [1, 4, 5]].any()
    # Rows 0 and 11, and columns 1, 4 and 5 of a 12 x 16 matrix.
    assert receipt.changed["2.weight"] == 2 * 16 + 3 * 12 - 2 * 3


def test_revived_units_train_again_and_dead_ones_do_not():
    def trained(revived):
        model, x = dead_mlp()
        target = torch.randn(64, 3)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        if revived:
            gw.revive(model, x, optimizer=optimizer)
        start = model[0].weight.detach().clone()
        for _ in range(20):
            loss = F.mse_loss(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        moved = (model[0].weight.detach() - start).abs().amax(1)
        return model, loss.item(), moved[[1, 4, 5]]

    _, loss_before, still = trained(False)
    model, loss_after, moved = trained(True)
    assert not still.any()
    assert bool((moved > 1e-3).all())
    assert bool((model[2].weight[:, [1, 4, 5]].abs().amax(0) > 1e-3).all())
    assert loss_after < loss_before


def test_the_optimizer_forgets_the_changed_numbers_and_no_others():
    model, x = dead_mlp()
    optimizer = torch.optim.Adam(model.parameters(), 0.01, amsgrad=True)
    for _ in range(3):
        optimizer.zero_grad()
        (model(x) + sum(p.sum() for p in model.parameters())).square().mean().backward()
        optimizer.step()
    kill(model[0], [1, 4, 5])
    before = copy.deepcopy(optimizer.state_dict()["state"])
    gradient = model[0].weight.grad.clone()
    receipt = gw.revive(model, x, optimizer=optimizer)
    assert set(receipt.optimizer) == {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}
    dead = list(receipt.sites[0].units)
    alive = [unit for unit in range(16) if unit not in dead]
    after = optimizer.state_dict()["state"]
    for name in receipt.optimizer:
        assert before[0][name][dead].any()
        assert not after[0][name][dead].any()
        assert torch.equal(after[0][name][alive], before[0][name][alive])
        assert not after[2][name][:, dead].any()  # columns of the layer behind
    assert torch.equal(after[0]["step"], before[0]["step"])
    assert not model[0].weight.grad[dead].any()
    assert torch.equal(model[0].weight.grad[alive], gradient[alive])


def test_the_same_seed_gives_the_same_weights():
    weights = []
    for seed in (3, 3, 4):
        model, x = dead_mlp()
        gw.revive(model, x, seed=seed)
        weights.append(model[0].weight.detach())
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_if_the_output_would_change_everything_is_put_back(monkeypatch):
    model, x = dead_convolutions()
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    old = copy.deepcopy(model.state_dict())
    monkeypatch.setattr(reviving, "columns_of", lambda labels, units: [1])  # a wrong column
    with pytest.raises(gw.surgery.SwapFailed, match="the output would change"):
        gw.revive(model, x, optimizer=optimizer)
    assert all(torch.equal(old[name], value) for name, value in model.state_dict().items())


def test_several_examples_find_fewer_dead_units():
    model, x = dead_mlp()
    one = gw.revive(copy.deepcopy(model), x)
    both = gw.revive(model, [x, -x[:7]])  # negative inputs switch them on
    assert one.units == 5
    assert both.units < 5
    assert both.inputs == 64 + 7


def test_a_dead_unit_whose_output_is_added_to_others_is_refused_with_the_reason():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.last = nn.Linear(8, 2)

        def forward(self, x):
            return self.last(x + F.relu(self.inner(x)))

    torch.manual_seed(0)
    model = Residual()
    kill(model.inner, [2])
    receipt = gw.revive(model, torch.rand(16, 8))
    assert receipt.sites == ()
    assert "residual" in receipt.refused["(model):relu#0"]
    assert "not revived" in str(receipt)


def test_a_unit_that_is_off_but_not_zero_is_not_dead():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 2))
    kill(model[0], [1])
    receipt = gw.revive(model, torch.rand(16, 8))
    assert receipt.sites == ()
    assert str(receipt).startswith("No unit was revived")


def test_where_selects_sites_and_bad_input_is_named():
    model, x = dead_mlp()
    receipt = gw.revive(model, x, where="1")
    assert [site.site for site in receipt.sites] == ["1"]
    with pytest.raises(ArgumentError, match="holds no inputs"):
        gw.revive(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(0, 4))
    with pytest.raises(ArgumentError, match="where: no activation site"):
        gw.revive(model, x, where="nothing*")
    with pytest.raises(ArgumentError, match="model"):
        gw.revive(x, x)
    with pytest.raises(ArgumentError, match="optimizer"):
        gw.revive(model, x, optimizer="adam")
    with pytest.raises(ArgumentError, match="seed"):
        gw.revive(model, x, seed=0.5)
    with pytest.raises(ArgumentError):
        gw.revive(model, torch.rand(4, 9))


def test_train_mode_is_compared_too_and_named_if_it_differs():
    model, x = dead_convolutions()
    with torch.no_grad():
        model.norm.bias[2] = 0.0
        model.norm.running_mean[2] = 1e3  # in train mode the unit is on
    receipt = gw.revive(model, x, where="(model):relu#0")
    assert receipt.difference <= 1e-6
    assert receipt.train_difference > 1e-4
    assert "train mode changed" in str(receipt)
