"""Rates against the papers' tables and against closed forms."""

import math

import pytest

from gatewise.train.config import find_recipe, rates, read_recipe

STEPS = 10  # an epoch


def lr(recipe, epoch, step=0):
    return rates(recipe, epoch * STEPS + step, STEPS).lr


def test_paper_002_phase_by_phase():
    """Supplement D: epochs, counted from 1, with their rate and decay."""
    recipe = find_recipe("crelu_imagenet_sgd")
    table = [
        (1, 10, 1e-2, 5e-4),
        (11, 20, 1e-3, 5e-4),
        (21, 25, 1e-4, 5e-4),
        (26, 30, 5e-5, 0),
        (31, 35, 1e-5, 0),
        (36, 40, 5e-6, 0),
        (41, 45, 1e-6, 0),
    ]
    for first, last, rate, decay in table:
        for step in ((first - 1) * STEPS, last * STEPS - 1):
            assert rates(recipe, step, STEPS) == rates(recipe, step, STEPS).__class__(rate, decay)
    assert recipe.total_epochs == 45 and recipe.batch == 64


def test_cfg_1_of_paper_003_warms_up_for_5_of_120_epochs_and_cools_down_for_10_more():
    recipe = find_recipe("iieu_cfg_1")
    assert recipe.total_epochs == 130
    warm = [rates(recipe, step, STEPS).lr for step in range(5 * STEPS)]
    assert warm == pytest.approx([0.1 * (step + 1) / 50 for step in range(50)])
    middle = 5 + 115 / 2
    assert rates(recipe, round(middle * STEPS), STEPS).lr == pytest.approx(
        (0.1 + 1e-5) / 2, rel=1e-9
    )
    assert all(
        lr(recipe, epoch, step) == pytest.approx(1e-5)
        for epoch in (120, 125, 129)
        for step in (0, 9)
    )


def test_cfg_2_is_a_line_without_cool_down_and_cfg_3_has_100_epochs():
    line = find_recipe("iieu_cfg_2")
    assert line.total_epochs == 120
    assert lr(line, 5) == pytest.approx(0.1) and lr(line, 62, 5) == pytest.approx((0.1 + 1e-5) / 2)
    assert find_recipe("iieu_cfg_3").total_epochs == 110


@pytest.mark.parametrize(
    "name, at_the_middle", [("iieu_cfg_l", "linear"), ("iieu_cfg_c", "cosine")]
)
def test_cfg_l_and_cfg_c_have_240_epochs_from_one_half(name, at_the_middle):
    recipe = find_recipe(name)
    assert recipe.schedule.name == at_the_middle and recipe.epochs == 240 and recipe.batch == 1024
    assert lr(recipe, 0) == 0.5 and recipe.weight_decay.value == 4e-5


def test_a_cosine_is_that_of_its_definition_step_by_step():
    recipe = read_recipe("epochs = 7\noptimiser.lr = 0.3\nschedule = {name = 'cosine', end = 0.01}")
    for step in range(7 * STEPS):
        want = 0.01 + 0.29 / 2 * (1 + math.cos(math.pi * step / (7 * STEPS)))
        assert rates(recipe, step, STEPS).lr == pytest.approx(want, rel=1e-12)


def test_steps_fall_after_the_epochs_named():
    recipe = read_recipe(
        "epochs = 9\noptimiser.lr = 1.0\nschedule = {name = 'step', at = [3, 6], factor = 0.5}"
    )
    assert [lr(recipe, epoch) for epoch in range(9)] == [1.0] * 3 + [0.5] * 3 + [0.25] * 3
    assert lr(recipe, 2, STEPS - 1) == 1.0


def test_no_rate_is_ever_negative_nan_or_above_the_start():
    for text in (
        "schedule = {name = 'cosine', warmup = 3, cooldown = 2}",
        "schedule = {name = 'linear', warmup = 9}",
    ):
        recipe = read_recipe(f"epochs = 10\noptimiser.lr = 0.7\n{text}")
        found = [rates(recipe, step, STEPS).lr for step in range(recipe.total_epochs * STEPS)]
        assert all(0 <= rate <= 0.7 and math.isfinite(rate) for rate in found) and found[0] > 0
