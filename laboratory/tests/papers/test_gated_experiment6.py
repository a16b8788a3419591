"""Experiment 6 of paper 004: only the gates change, and its claims are judged by the seeds."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gatewise_papers.all_experiments import find_experiment
from gatewise_papers.common import data_of
from gatewise_papers.deep_gated.experiments import experiment6
from gatewise_papers.not_here import NOT_HERE

from gatewise.files import read_json
from gatewise.train import build_model, make_optimiser

EXPERIMENT = find_experiment("deep_gated/experiment6")


def test_a_step_changes_the_gates_and_leaves_the_weights():
    (config,) = experiment6.networks(EXPERIMENT.scales["tiny"], (0,))[experiment6.ONLY_GATES]
    data = data_of(config)
    network = build_model(config, classes=data.classes, shape=data.shape)
    weights = [weight.clone() for weight in network.strength_parameters()]
    gates = [weight.clone() for weight in network.gate_parameters()]
    optimiser = make_optimiser(network, config.recipe)
    network(torch.rand(5, *data.shape)).square().sum().backward()
    optimiser.step()
    assert all(map(torch.equal, weights, network.strength_parameters()))
    assert not any(map(torch.equal, gates, network.gate_parameters()))


@pytest.mark.slow
def test_the_network_is_the_paper_s():
    (config,) = experiment6.networks(EXPERIMENT.scales["full"], (0,))[experiment6.ONLY_GATES]
    network = build_model(config, classes=10, shape=(3, 32, 32))
    widths = [weight.shape[0] for weight in network.strength_parameters()]
    assert widths == [64, 64, 128, 128, 256, 256, 10]


def test_claims_follow_the_seeds():
    full = EXPERIMENT.scales["full"]
    near = [0.555, 0.562, 0.56, 0.558, 0.561]
    assert verdicts(full, near) == ["supported", "supported"]
    assert verdicts(full, [value + 0.1 for value in near]) == ["supported", "contradicted"]
    assert verdicts(full, [0.09, 0.11, 0.1, 0.095, 0.105]) == ["undecided", "contradicted"]
    assert verdicts(replace(full, reduced="smaller"), near) == ["supported", "not tested"]


def verdicts(settings: experiment6.GatedExperiment6Settings, test: list[float]) -> list[str]:
    return [claim.verdict.value for claim in experiment6.claims(settings, test)]


@pytest.mark.slow
def test_it_runs_and_its_record_has_every_seed(tmp_path: Path):
    EXPERIMENT.run("tiny", 2, tmp_path)
    record = read_json(tmp_path / "deep_gated" / "experiment6" / "results.json")
    assert all(len(row["per_seed"]) == 2 for row in record["findings"]["rows"])
    assert len(record["findings"]["rows"]) == 6
    assert "deep_gated/experiment6" not in {one.name for one in NOT_HERE}
