"""Random networks compute the same after deploying, merging and galu, and can be restored."""

from collections import Counter

import pytest
import torch
from surgery.random_networks import RandomNetwork, example
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError

QUICK, FULL = 8, 300


def network(seed: int) -> nn.Module:
    """In float64, with statistics that were seen, and in evaluation mode."""
    torch.manual_seed(seed)
    model = RandomNetwork(seed).double()
    for _ in range(2):
        model.train()(torch.randn(4, 3, 6, 6, dtype=torch.float64))
    return model.eval()


@torch.no_grad()
def plant_pairs(model: nn.Module) -> None:
    """In every layer the last filter becomes the negative of the first, twice as long."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Conv2d) and len(module.weight) > 1:
            module.weight[-1] = -2 * module.weight[0]


def same(before: nn.Module, after: nn.Module) -> bool:
    torch.manual_seed(9)
    x = torch.randn(3, 3, 6, 6, dtype=torch.float64)
    want, got = before(x).detach(), after(x).detach()
    return bool((want - got).abs().max() <= 1e-11 * want.abs().max())


def try_one(seed: int, count: Counter) -> None:
    model, x = network(seed), example().double()
    deployed = gw.surgery.deploy(model, x)
    assert same(model, deployed), seed
    count["folded"] += len(gw.receipt(deployed).folded)
    plant_pairs(deployed)
    try:
        merged = gw.surgery.merge_pairs(deployed, x, tolerance=1e-6)
    except ArgumentError as problem:
        assert "merge_pairs" in str(problem) or "no activation" in str(problem)
        count["nothing"] += 1
        return
    assert same(deployed, merged), seed
    receipt = gw.receipt(merged)
    count["pairs"] += sum(len(pairs) for pairs in receipt.pairs.values())
    assert receipt.parameters[1] == sum(each.numel() for each in merged.parameters())
    assert same(deployed, gw.undo(merged)), seed


def try_twin(seed: int, count: Counter) -> None:
    model, x = network(seed), example().double()
    try:
        gated = gw.swap(model, "galu", x, preserve=True)
    except ArgumentError as problem:
        assert "nothing would change" in str(problem) or "no activation" in str(problem)
        count["nothing"] += 1
        return
    assert same(model, gated) and same(model, gw.undo(gated)), seed
    count["gated"] += 1


@pytest.mark.slow
def test_a_few_random_networks_are_deployed_and_merged_exactly():
    count: Counter = Counter()
    for seed in range(QUICK):
        try_one(seed, count)
    for seed in range(QUICK // 2):
        try_twin(seed, count)
    assert (
        count["pairs"] >= QUICK and count["folded"] >= QUICK // 4 and count["gated"] >= QUICK // 4
    ), count


@pytest.mark.slow
def test_many_random_networks_are_deployed_and_merged_exactly():
    count: Counter = Counter()
    for seed in range(1000, 1000 + FULL):
        try_one(seed, count)
        try_twin(seed, count)
    assert count["pairs"] >= FULL // 2, count
