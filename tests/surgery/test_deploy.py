"""A deployed model computes what the trained one did, without what only training needs."""

import copy
import math

import pytest
import torch
from gatewise_papers import psc
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.proof import SwapFailed
from gatewise.surgery.tools import deployment


class Everything(nn.Module):
    """Every kind of module that deploying changes, and one of each kind that must stay."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 6, 3, bias=False), nn.BatchNorm2d(6)
        self.act, self.pool = (
            gw.nn.BetaVQ("leaky_relu", beta=1.0),
            gw.nn.BetaPool2d(2, beta=1.0, padding=1),
        )
        self.up, self.norm_up = (
            nn.ConvTranspose2d(6, 4, 2, stride=2),
            nn.BatchNorm2d(4, affine=False),
        )
        self.depthwise, self.norm_dw = nn.Conv2d(4, 8, 3, groups=4), nn.BatchNorm2d(8)
        self.split = psc.StaticPSConv2d(8, 6, 1)
        self.maxout = gw.nn.BetaChannelPool(2, beta=1.0)
        self.late = nn.BatchNorm2d(3)
        self.head, self.norm_head = gw.nn.orthogonal(nn.Linear(3, 3), gain=True), nn.BatchNorm1d(3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.act(self.norm(self.conv(x))))
        x = self.norm_dw(self.depthwise(self.norm_up(self.up(x)))) - 0.5
        x = self.late(self.maxout(self.split(x)))
        return self.norm_head(self.head(x.mean((2, 3))))


def trained(model: nn.Module, x: Tensor) -> nn.Module:
    """Statistics and affine numbers that are not what they start from."""
    for module in model.modules():
        if isinstance(module, psc.StaticPSConv2d):
            module.set_temperature(0.001)  # so that the split has settled
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            if module.weight is not None:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.normal_(module.bias)
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.2, 3)
    return model.eval()


@pytest.fixture(scope="module")
def case() -> tuple[nn.Module, nn.Module, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(3, 3, 10, 10, dtype=torch.float64)
    model = trained(Everything().double(), x)
    return model, gw.surgery.deploy(model, x), x


def relative(before: Tensor, after: Tensor) -> float:
    return float((before - after).detach().abs().max() / before.detach().abs().max())


def test_outputs_are_equal_in_float64_on_the_example_and_on_other_inputs(case):
    model, deployed, x = case
    assert relative(model(x), deployed(x)) <= 1e-12
    other = 3 * torch.randn(7, 3, 14, 14, dtype=torch.float64)
    assert relative(model(other), deployed(other)) <= 1e-12
    assert gw.receipt(deployed).proof.output_float64 <= 1e-12


def test_each_kind_is_replaced_by_the_plain_one_and_said_in_the_receipt(case):
    _, deployed, _ = case
    receipt = gw.receipt(deployed)
    assert receipt.folded == {
        "norm": "conv",
        "norm_up": "up",
        "norm_dw": "depthwise",
        "norm_head": "head",
    }
    assert all(isinstance(deployed.get_submodule(path), nn.Identity) for path in receipt.folded)
    assert receipt.hardened == {"act": 0.0, "pool": 0.0, "maxout": 0.0}
    assert [type(each) for each in (deployed.act, deployed.pool, deployed.maxout)] == [
        gw.nn.LeakyReLU,
        nn.MaxPool2d,
        gw.nn.Maxout,
    ]
    assert receipt.pruned == ("split",) and deployed.split.split == 0.5
    assert receipt.baked == ("head",) and type(deployed.head) is nn.Linear
    assert list(receipt.refused) == ["late"]
    assert (
        receipt.parameters[1]
        == sum(each.numel() for each in deployed.parameters())
        < receipt.parameters[0]
    )
    assert receipt.operations[1] < receipt.operations[0]


def test_folding_is_the_formula(case):
    model, deployed, _ = case
    scale = model.norm.weight / (model.norm.running_var + model.norm.eps).sqrt()
    assert torch.allclose(
        deployed.conv.weight, model.conv.weight * scale.view(-1, 1, 1, 1), rtol=1e-14, atol=0
    )
    assert torch.allclose(
        deployed.conv.bias, model.norm.bias - model.norm.running_mean * scale, rtol=1e-13, atol=0
    )


def test_the_trained_model_is_not_changed_and_its_copies_still_work(case):
    model, _, x = case
    before, wanted = copy.deepcopy(model.state_dict()), model(x)
    gw.surgery.deploy(model, x)
    assert parametrize.is_parametrized(model.head)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model(x), wanted) and torch.equal(copy.deepcopy(model)(x), wanted)


def test_deploying_twice_is_deploying_once(case):
    _, deployed, x = case
    again = gw.surgery.deploy(deployed, x)
    assert torch.equal(again(x), deployed(x))
    assert not (gw.receipt(again).folded or gw.receipt(again).hardened or gw.receipt(again).pruned)


def test_a_swapped_model_can_be_deployed_and_is_then_no_swapped_one():
    torch.manual_seed(1)
    net = trained(
        nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 2, 3)),
        torch.empty(0),
    )
    x = torch.randn(2, 3, 9, 9)
    wide = gw.swap(net, "crelu", x, preserve=True)
    deployed = gw.surgery.deploy(wide, x)
    assert relative(net(x), deployed(x)) <= 1e-5
    assert isinstance(deployed[1], nn.Identity) and gw.receipt(deployed).unit == "deployed"
    with pytest.raises(
        ArgumentError, match=r"was deployed, which cannot be undone; fix: .* returned a copy"
    ):
        gw.undo(deployed)


def test_a_beta_short_of_one_stays_and_hardened_early_its_distance_is_stated_and_holds():
    net = nn.Sequential(gw.nn.BetaVQ("relu", beta=0.98), nn.Linear(4, 4)).double()
    x = torch.linspace(-2, 2, 4000, dtype=torch.float64).view(-1, 4)
    left = gw.surgery.deploy(net, x)
    assert isinstance(left[0], gw.nn.BetaVQ) and "below 1" in gw.receipt(left).refused["0"]
    early = gw.surgery.deploy(net, x, harden=0.9)
    stated = gw.receipt(early).hardened["0"]
    measured = float((net[0](x) - early[0](x)).abs().max())
    assert isinstance(early[0], gw.nn.ReLU)
    assert 0.999 * stated <= measured <= stated  # the grid is fine enough to find the largest


def test_a_trained_beta_that_cannot_be_told_from_one_is_hard():
    net = nn.Sequential(gw.nn.BetaVQ("abs", beta=0.9, learn_beta=True), nn.Linear(3, 3))
    net[0].beta_logit.data.fill_(30.0)
    deployed = gw.surgery.deploy(net, torch.randn(4, 3))
    assert isinstance(deployed[0], gw.nn.Abs)
    assert 0 < gw.receipt(deployed).hardened["0"] < 1e-12


def test_norms_that_cannot_be_folded_stay_with_their_reason():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice, self.a, self.b = nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2), nn.BatchNorm1d(2)
            self.lin, self.over = nn.Linear(5, 5), nn.BatchNorm1d(2)
            self.batch = nn.BatchNorm1d(2, track_running_stats=False)

        def forward(self, x: Tensor) -> Tensor:
            y = self.twice(x)
            return self.batch(self.over(self.lin(F.relu(self.a(y)) + self.b(y))))

    deployed = gw.surgery.deploy(Odd().eval(), torch.randn(3, 2, 5))
    reasons = gw.receipt(deployed).refused
    assert "also used elsewhere" in reasons["a"] and "also used elsewhere" in reasons["b"]
    assert "another dimension" in reasons["over"] and "no running statistics" in reasons["batch"]


class Padded(nn.Conv2d):
    """Pads its input itself, as the convolutions of EfficientNet."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, (0, 2, 1, 1)))


class WithoutBias(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight)


class Centred(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight - self.weight.mean(), self.bias)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (Padded(3, 4), ""),
        (WithoutBias(3, 4, 3, bias=False), "would not add the bias"),
        (WithoutBias(3, 4, 3), "would not add the bias"),
        (Centred(3, 4, 3), "not a plain layer"),
    ],
)
def test_norms_fold_into_convolutions_of_the_users_classes(layer: nn.Module, reason: str):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    net = trained(nn.Sequential(layer, nn.BatchNorm2d(4), nn.ReLU()), x)
    deployed = gw.surgery.deploy(net, x)
    receipt = gw.receipt(deployed)
    assert relative(net(x), deployed(x)) <= 1e-5
    assert isinstance(deployed[1], nn.BatchNorm2d if reason else nn.Identity)
    assert receipt.folded == ({} if reason else {"1": "0"})
    assert reason in receipt.refused.get("1", "")


class NormAct(nn.BatchNorm2d):
    """A norm with its activation inside, as timm's."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x)))


class NormTwice(NormAct):
    """Looks the same, and is not."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def test_an_activation_inside_a_norm_is_kept_and_one_that_only_looks_so_is_caught():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    net = trained(nn.Sequential(nn.Conv2d(3, 4, 3), NormAct(4), nn.Conv2d(4, 2, 3)), x)
    deployed = gw.surgery.deploy(net, x)
    assert relative(net(x), deployed(x)) <= 1e-5 and isinstance(deployed[1].act, nn.SiLU)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in deployed.modules())
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.surgery.deploy(trained(nn.Sequential(nn.Conv2d(3, 4, 3), NormTwice(4)), x), x)


def test_a_wrong_fold_is_caught(monkeypatch, case):
    model, _, x = case
    right = deployment.fold

    def wrong(model: nn.Module, each):
        made = right(model, each)
        model.get_submodule(each.layer).bias.data += 1e-6
        return made

    monkeypatch.setattr(deployment, "fold", wrong)
    with pytest.raises(SwapFailed, match="computes something else"):
        gw.surgery.deploy(model, x)


@pytest.mark.parametrize("harden", [0.5, 1.1, math.nan, True, "1"])
def test_a_beta_to_harden_at_that_makes_no_sense_is_our_error(harden):
    with pytest.raises(ArgumentError, match="harden"):
        gw.surgery.deploy(nn.Linear(2, 2), torch.randn(1, 2), harden=harden)
