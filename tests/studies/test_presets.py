"""The studies that come with the library: every arm is what it says, and they can begin."""

import pytest

from gatewise.studies import estimate_cost, presets, read_comparison
from gatewise.studies.comparison import NamedData

FAST_CIFAR_SITES = 7


@pytest.fixture
def few_images(monkeypatch):
    """CIFAR-10 with random images: the arms do not depend on them."""
    from gatewise.data import load
    from gatewise.studies.comparison import user_data

    def loaded(name, **options):
        if name != "cifar10":
            return load(name, **options)
        return load("random_labels", count=60, classes=10, shape=(3, 32, 32))

    monkeypatch.setattr(user_data, "load", loaded)


def test_all_presets_are_known():
    assert presets() == ("demo", "gates_text", "units_cifar10")


def test_the_demo_has_a_control_and_units_of_equal_size_within_its_budget():
    study = read_comparison("demo", {"data": {"name": "signals", "options": {"test": 500}}})
    assert study.units[:2] == ["original", "relu, other seeds"] and len(study.units) == 8
    assert study.grid.count == 6 and study.seeds == 8 and len(study.subjects) == 2
    for subject in study.subjects.values():
        assert not subject.left_out
        original = subject.variants["original"].parameters
        for variant in subject.variants.values():
            assert variant.parameters / original == pytest.approx(1, abs=0.01)
    first = study.cell("mlp 100-100", "original", 0, 0).settings["config"]
    control = study.cell("mlp 100-100", "relu, other seeds", 0, 0).settings["config"]
    assert first["seed"] != control["seed"] and first["recipe"] == control["recipe"]
    assert estimate_cost(study).runs.planned == 768


def test_every_arm_of_units_cifar10_has_all_seven_sites(few_images):
    study = read_comparison("units_cifar10")
    [subject] = study.subjects.values()
    assert not subject.left_out and len(study.units) == 8
    original = subject.variants["original"].parameters
    for unit, variant in subject.variants.items():
        if variant.plan is not None:
            assert len(variant.plan.swapped) == FAST_CIFAR_SITES, unit
        assert variant.parameters / original == pytest.approx(1, abs=0.02), unit


def test_changes_of_the_recipe_keep_the_rest_of_the_presets(few_images):
    lines = ['precision = "bfloat16"', "optimiser.momentum = 0.8"]
    changed = read_comparison("units_cifar10", {"units": ["gelu"]}, recipe_changes=lines)
    recipe = changed.first.model.recipe
    assert recipe.precision == "bfloat16" and recipe.optimiser.momentum == 0.8
    assert recipe.epochs == 8 and recipe.optimiser.name == "nesterov"
    cell = changed.cell("fast_cifar 16-64-64", "gelu", 0, 0)
    assert cell.settings["config"]["recipe"]["precision"] == "bfloat16"


def test_gates_of_text_have_equal_parameters():
    data = {"name": "text", "options": {"train": 40, "test": 20}}
    study = read_comparison("gates_text", {"data": data})
    [subject] = study.subjects.values()
    assert len(study.units) == 8 and subject.model.training.metric == "bits"
    assert subject.model.training.mode == "min"
    original = subject.variants["original"].parameters
    for variant in subject.variants.values():
        assert variant.parameters / original == pytest.approx(1, abs=0.01)


def test_a_named_set_is_loaded_again_in_another_process():
    import pickle

    from gatewise.studies.comparison import make_recipe, read_data

    data = read_data(NamedData("signals", {"train": 30, "test": 20}), make_recipe(None))
    sent = pickle.dumps(data)
    assert len(sent) < 5000
    assert pickle.loads(sent).digest == data.digest
