"""Cells: keys, fair starts, matched widths, and units that cannot go into a backbone."""

import itertools

import pytest
import torch
from small_studies import small_study

from gatewise.errors import ArgumentError
from gatewise.studies.older import (
    Facts,
    cells_of,
    make_groups,
    measure,
    with_costs,
    with_matched_widths,
)
from gatewise.train.config import run_config
from gatewise.train.loop import build_model

FACTS = Facts(10, (1, 8, 8))


def cells(**changes):
    study = small_study(**changes)
    return cells_of(make_groups(study), study.table.seeds)


def test_there_is_one_cell_for_every_combination_and_its_key_is_its_configuration():
    found = cells()
    assert len(found) == 3 * 2 * 2 == len({cell.key for cell in found})
    for cell in found:
        assert run_config(**cell.to_dict()["config"]).digest.startswith(cell.key)
    assert {(cell.place.unit, cell.place.backbone, cell.config.seed) for cell in found} == set(
        itertools.product(["relu", "leaky_relu", "crelu"], ["conv", "mlp"], [0, 1])
    )


def test_a_changed_line_changes_only_the_cells_it_is_about():
    before = {cell.key for cell in cells()}
    assert before < {cell.key for cell in cells(seeds=3)}
    assert before < {cell.key for cell in cells(units=["relu", "leaky_relu", "crelu", "elu"])}
    assert before == {
        cell.key for cell in cells(title="another", baseline="crelu", metric="test_loss")
    }
    assert not before & {cell.key for cell in cells(recipe={"epochs": 3, "batch": 20})}


def test_layers_that_units_share_start_equal():
    """Decision 5: a layer of the same name and shapes has the same numbers, bit for bit.

    Another seed gives others.
    """
    made = {}
    for cell in cells():
        network = build_model(cell.config, classes=10, shape=(1, 8, 8))
        made[cell.place.unit, cell.place.backbone, cell.config.seed] = dict(network.named_modules())
    for backbone in ("conv", "mlp"):
        base, shared = made["relu", backbone, 0], {"leaky_relu": 0, "crelu": 0}
        for unit in shared:
            for name, module in made[unit, backbone, 0].items():
                if not hasattr(module, "weight") or base[name].weight.shape != module.weight.shape:
                    continue
                theirs = base[name].state_dict()
                assert all(
                    torch.equal(theirs[key], tensor) for key, tensor in module.state_dict().items()
                ), name
                shared[unit] += 1
        assert (
            shared["leaky_relu"] >= 3 and shared["crelu"] >= 1
        )  # all layers; those that read no doubled channels
        head, other = (made["relu", backbone, seed]["head.layer"].weight for seed in (0, 1))
        assert not torch.equal(head, other)


def count(config) -> int:
    """Independent of how widths are matched: numbers in a network that is built."""
    return sum(p.numel() for p in build_model(config, classes=10, shape=(1, 8, 8)).parameters())


@pytest.mark.parametrize("backbone", ["conv", "mlp"])
def test_widths_are_matched_within_two_per_cent(backbone):
    options = {
        "conv": ("small_cnn", {"widths": [16, 32, 32]}),
        "mlp": ("mlp", {"widths": [128, 128]}),
    }[backbone]
    table = {"name": backbone, "model": options[0], "options": options[1]}
    units = ["relu", "leaky_relu", "crelu", "psc", "iieu_b", {"name": "beta_vq", "pieces": "abs"}]
    groups = make_groups(
        small_study(units=units, backbones=[table], match="parameters", match_within=0.02)
    )
    target = count(groups[0].config)
    for group in groups:
        assert abs(count(group.config) / target - 1) <= 0.02, group.place
    kept = {group.place.unit for group in groups if not group.matched}
    assert {"relu", "leaky_relu"} <= kept and not {"crelu", "psc"} & kept


def test_half_the_filters_take_even_widths():
    config = run_config(
        model="small_cnn", unit="crelu", model_options={"widths": [16, 32, 32], "filters": "half"}
    )
    target = count(run_config(model="small_cnn", model_options={"widths": [16, 32, 32]}))
    found = with_matched_widths(config, FACTS, target, by="parameters", within=0.02)
    assert all(width % 2 == 0 for width in found.model_options["widths"])
    assert abs(count(found) / target - 1) <= 0.02


@pytest.mark.parametrize("name, option", [("convpool_cnn", "scale"), ("wide_resnet", "width")])
def test_networks_with_one_number_for_their_width_are_matched_by_it(name, option):
    facts = Facts(10, (3, 32, 32))
    start = {"scale": 0.25} if option == "scale" else {"depth": 10, "width": 2}
    config = run_config(model=name, unit="relu", model_options=start)
    target = round(measure(config, facts).parameters * (1.5 if option == "scale" else 2.2))
    found = with_matched_widths(
        config, facts, target, by="parameters", within=0.5 if option == "width" else 0.02
    )
    assert found.model_options[option] > start[option]


def test_operations_are_matched_too():
    config = run_config(model="mlp", unit="crelu", model_options={"widths": [32, 32]})
    base = run_config(model="mlp", unit="relu", model_options={"widths": [32, 32]})
    from gatewise.studies.older import budget

    target = budget(base, FACTS, "flops")
    found = with_matched_widths(config, FACTS, target, by="flops", within=0.05)
    assert (
        abs(budget(found, FACTS, "flops") / target - 1)
        <= 0.05
        < abs(budget(config, FACTS, "flops") / target - 1)
    )


def test_widths_that_cannot_be_had_are_refused_with_the_numbers():
    config = run_config(model="mlp", unit="relu", model_options={"widths": [1]})
    with pytest.raises(
        ArgumentError,
        match=r"no widths of mlp come within 2.0%; got: [\d,]+ parameters.*allowed: 3",
    ):
        with_matched_widths(config, FACTS, 3, by="parameters", within=0.02)


def test_costs_are_counted():
    """By hand: 64 x 8 + 8, 8 x 8 + 8, 8 x 10 + 10 weights.

    Two operations for each product, one for each relu.
    """
    cost = measure(run_config(model="mlp", unit="relu", model_options={"widths": [8, 8]}), FACTS)
    assert cost.parameters == 520 + 72 + 90
    assert cost.flops == 2 * (512 + 64 + 80) + 16
    assert cost.saved_bytes and cost.saved_bytes >= 4 * (8 + 8)


def test_costs_that_are_known_are_not_counted_again(monkeypatch):
    groups = make_groups(small_study())
    known = {
        group.config.digest: cost.cost
        for group, cost in zip(groups, with_costs(groups, {}), strict=True)
    }
    monkeypatch.setattr("gatewise.studies.older.cells.measure", None)
    assert all(group.cost for group in with_costs(groups, known))


def test_all_units_that_cannot_go_into_a_backbone_are_said_at_once():
    with pytest.raises(ArgumentError) as refused:
        make_groups(small_study(units=["relu", "frelu", "nonsense", {"name": "elu", "alfa": 2}]))
    said = str(refused.value)
    assert "5 of 8 combinations cannot be run, and nothing was run" in said
    assert "frelu in mlp: frelu cannot follow a linear layer" in said
    assert (
        "nonsense in conv: there is no unit of that name" in said and "elu(alfa=2) in conv" in said
    )


def test_the_same_run_twice_is_refused():
    with pytest.raises(ArgumentError, match="two places of the study are the same run"):
        cells(units=["relu", {"name": "relu", "label": "also relu"}])
