"""Randomness is a function of its name: of nothing drawn before, and of no unit."""

import itertools

import pytest
import torch
from torch import nn

from gatewise.models import create_model
from gatewise.train.loop import initialise, initialised, seed_step


def test_the_dropout_of_a_step_is_its_own_and_each_process_has_another():
    seen = []
    for step, rank in [(0, 0), (1, 0), (0, 1), (0, 0)]:
        seed_step(7, step, rank)
        seen.append(nn.functional.dropout(torch.ones(64), 0.5))
    assert torch.equal(seen[0], seen[3])
    assert not any(torch.equal(a, b) for a, b in itertools.combinations(seen[:3], 2))


def shapes(module):
    return type(module), {name: tensor.shape for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize(
    "unit, least",
    [
        ("gelu", 8),
        ("prelu", 8),
        ("meta_acon", 8),
        ("frelu", 8),
        ("iieu_b", 8),
        ("psc", 4),
        ("crelu", 2),
    ],
)
def test_modules_of_equal_path_and_shapes_start_equal_whatever_unit_stands_between(
    unit: str, least: int
):
    plain, other = (
        dict(initialised(lambda u=u: create_model("small_cnn", unit=u), 3).named_modules())
        for u in ("relu", unit)
    )
    common = [
        path for path in plain if path in other and shapes(plain[path]) == shapes(other[path])
    ]
    common = [path for path in common if plain[path].state_dict()]
    assert len(common) >= least and "conv1.layer" in common
    for path in common:
        for name, tensor in plain[path].state_dict().items():
            assert torch.equal(tensor, other[path].state_dict()[name]), (path, name)


def test_another_seed_draws_other_weights():
    one, two = (
        initialised(lambda: create_model("small_cnn"), seed).state_dict()["conv2.layer.weight"]
        for seed in (0, 1)
    )
    assert not torch.equal(one, two)


def test_two_modules_alike_do_not_start_alike():
    net = initialise(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), 0)
    assert not torch.equal(net[0].weight, net[1].weight)


def test_initial_weights_have_the_distribution_that_torch_draws():
    weight = initialise(nn.Linear(100, 2000), 0).weight
    bound = 100**-0.5  # uniform on [-bound, bound]
    assert weight.abs().max() <= bound
    assert abs(weight.std() / (bound / 3**0.5) - 1) < 0.01


def test_nothing_of_this_moves_the_random_numbers_of_the_caller():
    torch.manual_seed(0)
    want = torch.rand(3)
    torch.manual_seed(0)
    initialised(lambda: create_model("small_cnn"), 3)
    assert torch.equal(torch.rand(3), want)


def test_weights_that_no_module_can_draw_again_are_a_function_of_the_seed_too():
    def build():
        return create_model("large_cnn", orthogonal_filters=True, scale=0.05)

    torch.manual_seed(1)
    one = initialised(build, 4).state_dict()
    torch.manual_seed(2)
    two = initialised(build, 4).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_hes_start_keeps_the_size_of_a_signal_through_rectifiers_and_torchs_lets_it_fade():
    def passed_on(start: str) -> float:
        net = initialised(lambda: create_model("mlp", widths=(512,) * 8), 0, start)
        return net[:-1](torch.randn(256, 1, 8, 8)).square().mean().item()  # before the head

    torch.manual_seed(0)
    # Of a rectified normal number of variance 2 the mean square is 1, give or take what eight
    # layers of 512 draw.
    assert abs(passed_on("he") - 1) < 0.5 and passed_on("torch") < 1e-3


def test_he_is_only_for_plain_layers_and_a_unit_keeps_its_own_start():
    plain, he = (
        initialised(lambda: create_model("small_cnn", unit="frelu"), 0, start).state_dict()
        for start in ("torch", "he")
    )
    same = {name for name in plain if torch.equal(plain[name], he[name])}
    assert "conv1.unit.funnel.weight" in same and "conv1.layer.weight" not in same
    assert he["head.layer.bias"].abs().max() == 0
