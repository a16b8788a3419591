"""A long proof runs on a part of the example that decides it, and the receipt names the part."""

import pytest
import torch
from torch import Tensor, nn

import gatewise as gw
from gatewise.surgery.proof import SwapFailed, difference, limits
from gatewise.surgery.proof.limits import parts
from gatewise.surgery.proof.preserved import compare_training as _trained
from gatewise.surgery.proof.running import Run, first_of


def pooled(*, norm: bool = False) -> nn.Sequential:
    """Takes pictures of any size."""
    torch.manual_seed(0)
    middle: list[nn.Module] = [
        nn.Conv2d(3, 8, 3, 2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, 2),
        nn.ReLU(),
    ]
    end: list[nn.Module] = [
        nn.AdaptiveAvgPool2d(1),
        nn.Conv2d(8, 6, 1),
        nn.BatchNorm2d(6) if norm else nn.Identity(),
    ]
    return nn.Sequential(*middle, *end, nn.ReLU(), nn.Flatten(), nn.Linear(6, 4)).eval()


class ByBatch(nn.Module):
    """A single picture passes its activation by."""

    def __init__(self):
        super().__init__()
        self.a, self.act, self.b = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)
        self.short = nn.Conv2d(3, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        deep = self.b(self.act(self.a(x))) if len(x) > 1 else self.short(x)
        return deep.mean((2, 3))


class SummedWhenSingle(nn.Module):
    """Sums the channels of its activation for one image, so that widening changes the result."""

    def __init__(self, *, fewest: int = 1):
        super().__init__()
        self.a, self.act, self.b = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)
        self.fewest = fewest

    def forward(self, x: Tensor) -> Tensor:
        assert not self.training or len(x) >= self.fewest
        maps = self.act(self.a(x))
        return self.b(maps).mean((2, 3)) if len(x) > 1 else maps.sum((1, 2, 3))


def pictures(side: int = 32, batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, side, side, generator=torch.Generator().manual_seed(side))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch):
    """Every pass is long."""
    monkeypatch.setattr(limits, "MUCH", 1)


def proof_of(model: nn.Module, x: Tensor, unit: str = "crelu"):
    proof = gw.receipt(gw.swap(model, unit, x, preserve=True)).proof
    assert proof is not None
    return proof


def test_a_short_proof_is_on_all_of_the_example():
    x = pictures()
    assert proof_of(pooled(), x).notes == ()


def test_a_long_proof_is_on_the_first_of_the_batch_and_then_on_all():
    x = pictures()
    (one, words), (whole, none) = parts(((x,), {}), int(30e9))
    assert torch.equal(one[0][0], x[:1]) and words == "the first of the batch"
    assert whole[0][0] is x and not none
    assert len(parts(((x,), {}), int(1e9))) == 1


def test_a_long_proof_is_on_the_middle_of_a_large_image_first():
    x = torch.arange(2 * 224 * 224.0).reshape(2, 1, 224, 224)
    (middle, words), (one, _), _ = parts(((x,), {}), int(30e9))
    assert torch.equal(middle[0][0], x[:1, :, 84:140, 84:140]) and "the middle of" in words
    assert torch.equal(one[0][0], x[:1])


def test_tensors_without_a_common_batch_stay_whole():
    example = ((pictures(), torch.zeros(3, 2)), {})
    assert parts(example, int(1e12)) == [(example, "")] and first_of(example) is example


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("unit", ["crelu", "psc"])
def test_a_proof_on_one_picture_says_so_and_holds_on_the_batch(unit: str):
    model, x = pooled(), pictures()
    changed = gw.swap(model, unit, x, preserve=True)
    proof = gw.receipt(changed).proof
    assert proof is not None and "on the first of the batch" in proof.notes[0]
    assert proof.live == "live" and proof.gradient <= 1e-12 and proof.output_float64 <= 1e-12
    with torch.no_grad():
        torch.testing.assert_close(
            changed.double()(x.double()), model.double()(x.double()), rtol=1e-12, atol=1e-12
        )


@pytest.mark.usefixtures("impatient")
def test_what_the_original_does_not_take_is_not_proved_on():
    # batch norm does not train on one element
    assert proof_of(pooled(norm=True), pictures(batch=8)).notes == ()


@pytest.mark.usefixtures("impatient")
def test_a_part_that_passes_the_new_weights_by_settles_nothing():
    proof = proof_of(ByBatch(), pictures())
    assert proof.notes == () and proof.live == "live"


@pytest.mark.usefixtures("impatient")
def test_what_is_wrong_on_the_whole_example_alone_is_caught():
    model = ByBatch().eval()
    plan = gw.plan(model, "crelu", pictures(), preserve=True)
    edit = next(each for each in plan.edits if each.name == "b.weight")
    edit.index.copy_(edit.index.flip(0))
    with pytest.raises(SwapFailed, match="computes something else"):
        plan.apply(model)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fewest", [1, 2])
def test_what_is_wrong_on_a_part_is_not_made_good_by_a_larger_one(fewest: int):
    """Nor where the original runs on that part, but is not trained on it."""
    model = SummedWhenSingle(fewest=fewest).eval()
    with pytest.raises(SwapFailed, match=r"computes something else.*on the first of the batch"):
        gw.swap(model, "crelu", pictures(), preserve=True)
    assert model.b.weight.shape[1] == 8


def test_an_activation_inside_a_norm_may_change_what_the_norm_gives():
    class NormAct(nn.BatchNorm2d):
        def __init__(self, channels: int):
            super().__init__(channels)
            self.act = nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.act(super().forward(x))

    model = nn.Sequential(nn.Conv2d(3, 6, 3), NormAct(6), nn.Conv2d(6, 4, 3)).eval()
    plan = gw.plan(model, "crelu", pictures(8), preserve=True)
    assert plan.entries[0].kind == "hidden-in-norm" and plan.sizes.keys() == {"0", "2"}
    assert gw.receipt(plan.apply(model)).proof.live == "live"


@pytest.mark.usefixtures("impatient")
def test_a_wrong_rewrite_is_caught_on_a_part_too():
    model, x = pooled(), pictures()
    plan = gw.plan(model, "crelu", x, preserve=True)
    edit = next(each for each in plan.edits if each.fill == "zero")
    edit.index.copy_(edit.index.flip(0))
    with pytest.raises(SwapFailed, match="computes something else"):
        plan.apply(model)


def test_differences_are_found_wherever_they_are():
    """A NaN, an infinity and a number in the last of many rows; a view; no dimensions."""
    one = torch.randn(300, 500, generator=torch.Generator().manual_seed(0)).clamp(-4, 4)
    one[0, 0] = 4.0
    for place, value, apart in (
        ((-1, -1), 8.0, None),
        ((150, 3), float("nan"), float("inf")),
        ((0, 1), 8.0, None),
    ):
        other = one.clone()
        other[place] = value
        want = apart or float(abs(8.0 - one[place])) / 4
        assert difference([one], [other]) == pytest.approx(want)
        assert difference([one.t()], [other.t()]) == pytest.approx(want)
    assert difference([torch.tensor(2.0)], [torch.tensor(3.0)]) == 0.5
    same = torch.tensor([float("inf"), 1.0, float("nan")])
    assert difference([same], [same.clone()]) == 0.0


def test_a_gradient_of_a_second_weight_that_is_not_finite_is_caught():
    """Its first weight alone says nothing of it, for it began as zero times the first."""
    plan = gw.plan(pooled(), "psc", pictures(), preserve=True)
    gradients = {name: torch.ones(shape) for name, shape in plan.signature.items()}
    second = {
        f"{path}.weight_neg": torch.ones(plan.signature[f"{path}.weight"]) for path in plan.layers
    }
    assert (
        _trained(plan, Run((), gradients, 0), Run((), {**gradients, **second}, 0))["gradient"]
        == 0.0
    )
    next(iter(second.values()))[-1, -1] = float("nan")
    found = _trained(plan, Run((), gradients, 0), Run((), {**gradients, **second}, 0))
    assert found["gradient"] == float("inf") and found["live_edits"] == (
        len(plan.layers),
        len(plan.layers),
    )
