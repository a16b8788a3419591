"""What the laboratory adds to gatewise is found there by its name, and gatewise knows the names."""

from importlib.metadata import entry_points

from loops import for_each

import gatewise as gw
from gatewise import extensions
from gatewise.analysis import all_questions
from gatewise.data import datasets
from gatewise.train import find_recipe, recipes

HOME = "gatewise_papers."


def test_gatewise_knows_the_names_that_the_laboratory_adds():
    models = [
        name
        for name in gw.models.list_models()
        if gw.models.get_model(name).build.__module__[:16] == HOME
    ]
    assert sorted(models) == sorted(extensions.PAPERS["models"])
    sets = [name for name, source in datasets().items() if source.read.__module__[:16] == HOME]
    assert sorted(sets) == sorted(extensions.PAPERS["data"])
    assert set(recipes()) - {"adam", "sgd", "fast_cifar"} == set(extensions.PAPERS["recipes"])
    assert list(all_questions())[-1:] == list(extensions.PAPERS["questions"])
    assert set(extensions.PAPERS["commands"]) <= set(extensions.extension_commands())


@for_each("name", ["deep_gated_adam", "crelu_cifar", "iieu_cifar"])
def test_a_recipe_of_a_paper_is_found_by_its_name(name: str):
    assert find_recipe(name).paper


@for_each("name", extensions.PAPERS["units"])
def test_phase_layers_stand_in_place_of_a_unit(name: str):
    names = {
        type(module).__name__ for module in gw.models.create_model("small_cnn", unit=name).modules()
    }
    assert any(each.endswith("PSConv2d") for each in names)


def test_every_entry_point_can_be_loaded():
    points = entry_points(group=extensions.GROUP)
    assert {point.name for point in points} >= {"data", "models", "recipes", "swaps", "units"}
    for point in points:
        assert callable(point.load())
