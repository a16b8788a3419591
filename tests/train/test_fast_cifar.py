"""The network and the recipe fast_cifar: whitening, copies, rates, and a resumed run."""

from pathlib import Path

import pytest
import torch

import gatewise as gw
from gatewise.data import Augment, DataSet, Split
from gatewise.train import (
    Pace,
    StopSignal,
    Watcher,
    find_recipe,
    make_optimiser,
    run_config,
    train,
)
from gatewise.train.config import rates
from gatewise.train.loop import set_rates

IMAGES = torch.randint(0, 256, (96, 3, 32, 32), generator=torch.Generator().manual_seed(0)).byte()
LABELS = torch.arange(96) % 10
DATA = DataSet(
    name="cifar10",
    train=Split(IMAGES, LABELS),
    test=Split(IMAGES[:20], LABELS[:20]),
    classes=10,
    shape=(3, 32, 32),
    mean=(0.5,) * 3,
    std=(0.25,) * 3,
    digest="made here",
)


def test_whitened_patches_are_uncorrelated_with_variance_one():
    images = torch.randn(200, 3, 9, 9, generator=torch.Generator().manual_seed(1))
    images = images + 2 * images.mean(1, keepdim=True)  # channels that depend on each other
    network = gw.models.create_model("fast_cifar", widths=(4, 8, 8))
    network.start_from_data(images)
    weight = network[0].layer.weight.detach()
    out = torch.nn.functional.conv2d(images, weight)
    flat = out.permute(1, 0, 2, 3).flatten(1)[:12].double()
    moments = flat @ flat.T / flat.shape[1]
    # Off the diagonal 0 and on it v / (v + 5e-4); float32 filters round at about 1e-6.
    assert (moments - torch.eye(12)).abs().max() < 5e-3
    assert torch.equal(weight[12:], -weight[:12]) and not network[0].layer.weight.requires_grad


def test_the_first_filters_copy_their_inputs_and_norms_have_no_scale():
    network = gw.models.create_model("fast_cifar", unit="psc", widths=(16, 16, 16))
    layer = network.get_submodule("conv1a.layer")
    x = torch.randn(2, 12, 8, 8)
    assert torch.equal(layer(x)[:, :12], x.clamp(min=0))
    norms = [m for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(norms) == 6 and not any(norm.weight.requires_grad for norm in norms)


@pytest.mark.parametrize("unit", ["relu", "crelu", "maxout", "psc", "iieu_b", "swish"])
def test_any_unit_fits(unit: str):
    network = gw.models.create_model("fast_cifar", unit=unit, widths=(4, 6, 6))
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_the_rate_rises_to_its_peak_after_a_fifth_and_falls():
    recipe = find_recipe("fast_cifar")
    found = [rates(recipe, step, 10).lr for step in (0, 8, 16, 48, 79)]
    # 80 steps: 0.2 at first, 1 at step 16, then linear to 0.07 at step 80.
    by_hand = [0.2, 0.6, 1.0, 1 - 0.93 * 32 / 64, 1 - 0.93 * 63 / 64]
    assert found == pytest.approx([0.75 * share for share in by_hand])


def test_shifts_of_norms_have_64_times_the_rate_and_shrink_alike():
    network = gw.models.create_model("fast_cifar", widths=(4, 6, 6))
    recipe = find_recipe("fast_cifar")
    optimiser = make_optimiser(network, recipe)
    set_rates(optimiser, rates(recipe, 16, 10))
    others, norms = optimiser.param_groups
    assert norms["lr"] == 64 * others["lr"] == 48.0 and len(norms["params"]) == 6
    shrinks = [group["lr"] * group["weight_decay"] for group in optimiser.param_groups]
    assert shrinks[0] == pytest.approx(shrinks[1]) == pytest.approx(0.75 * 1.33e-3)


def test_images_are_mirrored_in_alternate_epochs_and_borders_are_reflected():
    images = IMAGES[:40].float()
    index = torch.arange(40)
    flips = Augment(flip="alternate")
    even, odd, later = (flips.apply(images, seed=3, epoch=e, index=index) for e in (0, 1, 2))
    assert torch.equal(even, later) and torch.equal(even, odd.flip(-1))
    same = (even == images).flatten(1).all(1)
    assert 0 < same.sum() < 40
    moved = Augment(shift=2, border="reflect").apply(images, seed=3, epoch=0, index=index)
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2), mode="reflect")
    windows = padded.unfold(2, 32, 1).unfold(3, 32, 1).permute(0, 2, 3, 1, 4, 5).flatten(1, 2)
    assert (windows == moved[:, None]).flatten(2).all(2).any(1).all()


class StopAfter(Watcher):
    def __init__(self, step: int, stop: StopSignal) -> None:
        self.last, self.stop = step, stop

    def step(self, step) -> None:
        if step.step == self.last:
            self.stop.asked = True


def test_a_resumed_run_has_the_same_bits(tmp_path: Path):
    changes = ["epochs = 2", "batch = 16", "accumulate = 2"]
    config = run_config(
        model="fast_cifar",
        unit="gelu",
        model_options={"widths": [4, 6, 6]},
        data="cifar10",
        recipe=find_recipe("fast_cifar", changes=changes),
    )
    whole = train(config, tmp_path / "whole", data=DATA)
    stop = StopSignal()
    assert (
        train(config, tmp_path / "cut", data=DATA, stop=stop, watchers=[StopAfter(2, stop)]) is None
    )
    resumed = train(config, tmp_path / "cut", data=DATA, pace=Pace(checkpoint_seconds=0.0))
    assert whole is not None and resumed is not None
    assert resumed.weights_sha256 == whole.weights_sha256 and resumed.metrics == whole.metrics


@pytest.mark.parametrize(
    "unit", ["relu", "crelu", "maxout", "psc", "static_psc", "low_rank_psc", "abs"]
)
def test_no_norm_divides_by_zero_at_the_start(unit: str):
    """A copy of a negative part is constant after two pools; its norm would divide by 0."""
    generator = torch.Generator().manual_seed(2)
    # Edges between even areas, so that patches are correlated as in photographs.
    images = torch.randn(64, 3, 4, 4, generator=generator).repeat_interleave(8, 2)
    images = images.repeat_interleave(8, 3) + 0.1 * torch.randn(64, 3, 32, 32, generator=generator)
    torch.manual_seed(0)
    network = gw.models.create_model("fast_cifar", unit=unit, widths=(6, 23, 23))
    network.start_from_data(images)
    least = []

    def keep(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        least.append(inputs[0].var((0, 2, 3)).min().item())

    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.register_forward_pre_hook(keep)
    network(images)
    assert len(least) == 6 and min(least) > 1e-3, least
