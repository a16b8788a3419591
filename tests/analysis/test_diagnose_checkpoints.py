"""A diagnosis with checkpoints.

Gates that change sides, the film of regions, and weights that do not fit.
"""

from pathlib import Path

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.analysis.diagnosis import MOST, find_checkpoints
from gatewise.errors import ArgumentError, FileError
from gatewise.files import write_tensors

ASKED = ["flips", "film"]


def network(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3)
    ).eval()


def rows() -> torch.Tensor:
    return torch.randn(40, 4, generator=torch.Generator().manual_seed(7))


def asked(model: nn.Module, checkpoints, **options) -> gw.analysis.Diagnosis:
    return gw.diagnose(
        model, rows(), questions=ASKED, checkpoints=checkpoints, seconds=1.0, **options
    )


def test_flips_are_those_of_each_two_models_that_follow_each_other() -> None:
    models = [network(seed) for seed in range(3)]
    found = asked(models[2], [model.state_dict() for model in models[:2]])["flips"]
    assert [(step["from"], step["to"]) for step in found.facts["steps"]] == [
        ("checkpoint 1", "checkpoint 2"),
        ("checkpoint 2", "now"),
    ]
    for step, before, after in zip(found.facts["steps"], models, models[1:], strict=False):
        alone = gw.analysis.gate_flips(before, after, [rows()])
        assert [site["site"] for site in step["sites"]] == ["1", "3"]
        for site, want in zip(step["sites"], alone.sites, strict=True):
            assert site["flipped"] == pytest.approx(float(want.flip_rate.mean()), abs=1e-12)
            assert site["chance"] == pytest.approx(float(want.chance.mean()), abs=1e-12)
        flips = [float(rate) for site in alone.sites for rate in site.flip_rate]
        assert step["flipped"] == pytest.approx(sum(flips) / len(flips), abs=1e-12)


def test_frames_are_the_partitions_of_the_models_in_one_window() -> None:
    models = [network(seed) for seed in range(3)]
    made = asked(models[2], models[:2])
    facts, film = made["film"].facts, made["film"].record
    window = (facts["low"][0], facts["high"][0], facts["low"][1], facts["high"][1])
    want = [gw.analysis.partition(model, rows()[:3], extent=window).count for model in models]
    assert [frame["count"] for frame in facts["frames"]] == want == list(film.counts)
    assert facts["names"] == ["checkpoint 1", "checkpoint 2", "now"] and len(set(want)) > 1
    assert made["film"].line.startswith(f"{want[0]} linear region")


def test_soft_networks_have_a_film_of_their_entropy() -> None:
    models = [nn.Sequential(nn.Linear(4, 5), nn.SiLU(), nn.Linear(5, 2)) for _ in range(2)]
    facts = asked(models[1], models[:1])["film"].facts
    assert (
        not facts["exact"]
        and [len(frame["entropy"]) for frame in facts["frames"]]
        == [len(facts["frames"][0]["entropy"])] * 2
    )
    assert facts["frames"][0]["mean"] != facts["frames"][1]["mean"]


def test_equal_checkpoints_count_once_and_the_model_itself_comes_last(tmp_path: Path) -> None:
    for name, seed in (("weights-00000", 0), ("weights-00003", 1), ("weights", 1)):
        write_tensors(tmp_path / f"{name}.safetensors", network(seed).state_dict())
    paths = [
        tmp_path / f"{name}.safetensors" for name in ("weights-00000", "weights-00003", "weights")
    ]
    assert find_checkpoints(network(1), paths).names == ("epoch 0", "epoch 3")
    assert find_checkpoints(network(2), paths[::2]).names == ("epoch 0", "weights", "now")
    assert find_checkpoints(network(0), []).names == ()
    with_one = asked(network(0), [network(0)])
    assert {each.reason for each in with_one} == {"no checkpoints"}


def test_many_checkpoints_are_thinned_from_the_first_to_the_last() -> None:
    checkpoints = find_checkpoints(
        network(0), [network(seed).state_dict() for seed in range(1, 21)]
    )
    assert checkpoints.given == 21 and len(checkpoints.names) == MOST
    assert checkpoints.names[0] == "checkpoint 1" and checkpoints.names[-1] == "now"


def test_the_model_and_the_checkpoints_are_left_as_they_were() -> None:
    model, other = network(0).train(), network(1).train()
    before = [[value.clone() for value in each.state_dict().values()] for each in (model, other)]
    asked(model, [other])
    assert model.training and other.training
    for each, kept in zip((model, other), before, strict=True):
        assert all(
            torch.equal(now, was) for now, was in zip(each.state_dict().values(), kept, strict=True)
        )


def test_checkpoints_that_are_none_are_named() -> None:
    model = network(0)
    with pytest.raises(ArgumentError, match="checkpoint 2 does not fit the model"):
        asked(model, [network(1), nn.Linear(4, 3).state_dict()])
    broken = network(1)
    broken[2].bias.data[3] = torch.inf
    with pytest.raises(
        ArgumentError, match=r"checkpoint 2 contains NaN or infinity; got: 2\.bias: 1 of 6 numbers"
    ):
        asked(model, [network(1), broken])
    with pytest.raises(ArgumentError, match="checkpoint 1 is not a checkpoint"):
        asked(model, [3])
    with pytest.raises(ArgumentError, match="must be a list, in the order of training"):
        asked(model, network(1).state_dict())
    with pytest.raises(FileError, match="checkpoint 1 cannot be read"):
        asked(model, ["missing.safetensors"])
