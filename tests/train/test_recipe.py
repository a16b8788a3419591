"""Recipes: every key is checked (I2), all recipes train (I5), errors name their line."""

import typing

import pytest
import torch
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel

from gatewise.data import DataSet, Split
from gatewise.errors import ArgumentError, FileError, UnknownNameError
from gatewise.models import create_model
from gatewise.train.config import (
    Recipe,
    RunConfig,
    fields_at,
    find_recipe,
    read_recipe,
    recipes,
    run_config,
)
from gatewise.train.loop import Watcher, initialised
from gatewise.train.run import train

PAPERS = {
    "crelu_cifar",
    "crelu_imagenet_sgd",
    "crelu_imagenet_adam",
    "iieu_cfg_1",
    "iieu_cfg_2",
    "iieu_cfg_3",
    "iieu_cfg_l",
    "iieu_cfg_c",
    "iieu_cifar",
    "deep_gated_rmsprop",
    "deep_gated_adam",
}


def test_the_recipes_of_the_papers_are_there():
    assert {"adam", "sgd"} | PAPERS <= set(recipes())
    assert all(find_recipe(name).paper for name in PAPERS)


class TwoSteps(Watcher):
    def __init__(self):
        self.losses = []

    def step(self, step):
        self.losses.append(step.loss)


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_validates_and_trains_two_steps(name, tmp_path):
    """The recipe with one epoch of two small batches, on the smallest images its crops allow."""
    recipe = find_recipe(name)
    size = {"crop": 32, "random_resized_crop": 224}.get(next(reversed(recipe.augment), ""), 8)
    torch.manual_seed(0)
    part = Split(torch.randint(0, 256, (8, 1, size, size), dtype=torch.uint8), torch.arange(8) % 2)
    data = DataSet("digits", part, part, 2, (1, size, size), (0.5,), (0.25,), "none")
    table = recipe.model_dump(exclude_unset=True) | {"epochs": 1, "batch": 4}
    if recipe.schedule.name == "phases":
        table["schedule"]["phases"] = [table["schedule"]["phases"][0] | {"epochs": 1}]
    else:
        table["schedule"] = {"name": "constant"}
    steps = TwoSteps()
    config = run_config(
        model="small_cnn", model_options={"widths": [2, 2]}, recipe=Recipe.model_validate(table)
    )
    result = train(config, tmp_path / "run", data=data, watchers=[steps])
    assert result.status == "finished" and result.steps == 2 == len(steps.losses)


@pytest.mark.parametrize(
    ("recipe", "network", "side"),
    [
        ("crelu_cifar", "convpool_cnn", 32),
        ("crelu_imagenet_sgd", "all_cnn", 96),
        ("crelu_imagenet_adam", "all_cnn", 96),
    ],
)
def test_networks_without_norms_start_so_that_images_can_be_told_apart(recipe, network, side):
    """From torch's own start their outputs hardly depend on the image, and they do not learn."""
    x = torch.randn(8, 3, side, side, generator=torch.Generator().manual_seed(0))
    built = initialised(lambda: create_model(network), 0, find_recipe(recipe).start)
    *_, last = (module for module in built.modules() if isinstance(module, torch.nn.Conv2d))
    found = []
    last.register_forward_hook(lambda module, args, out: found.append(out.mean((2, 3))))
    with torch.no_grad():
        built.eval()(x)
    assert found[0].std(0).mean() > 0.01  # over images: 0.1 here, 5e-5 and less from torch's start


def test_images_smaller_than_the_crop_of_a_recipe_are_refused_before_they_are_read(tmp_path):
    for name in ("iieu_cfg_1", "iieu_cifar"):
        with pytest.raises(ArgumentError, match="larger than the images"):
            train(run_config(model="small_cnn", recipe=find_recipe(name)), tmp_path / name)


def constrained(kind: type[BaseModel]) -> None:
    for name, field in kind.model_fields.items():
        check(f"{kind.__name__}.{name}", field.annotation, field.metadata)


def check(where: str, annotation: typing.Any, metadata: list) -> None:
    bounds = [m for m in metadata if isinstance(m, Ge | Gt | Le | Lt | MaxLen | MinLen)]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        constrained(annotation)
    elif origin is typing.Annotated:
        check(where, inner[0], [*metadata, *(each for info in inner[1:] for each in info.metadata)])
    elif origin is list:
        assert bounds, where
        check(f"{where}[]", inner[0], [])
    elif (
        origin is dict
    ):  # names of options, which the model, data set, augmentation and optimiser check themselves
        assert where.endswith(("_options", "augment", "unit", "Optimiser.options")), where
    elif str(origin) in ("typing.Union", "<class 'types.UnionType'>"):
        for each in inner:
            check(where, each, [])
    elif annotation in (int, float):
        assert any(isinstance(b, Ge | Gt) for b in bounds) and any(
            isinstance(b, Le | Lt) for b in bounds
        ), where
    elif annotation is str:
        assert bounds, where
    else:
        assert annotation in (bool, type(None)) or origin is typing.Literal, where


@pytest.mark.parametrize("kind", [Recipe, RunConfig])
def test_every_field_is_constrained(kind):
    constrained(kind)


def test_the_check_of_constraints_can_fail():
    class Loose(BaseModel):
        rate: float

    with pytest.raises(AssertionError):
        constrained(Loose)


TEXT = """title = "mine"
epochs = 3

[optimiser]
name = "sgd"
lr = 0.1

[schedule]
name = "cosine"
"""


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "epochs = 3",
            "epoch = 3",
            ["mine.toml, line 2: epoch is not a key", "did you mean 'epochs'?"],
        ),
        (
            "epochs = 3",
            "epochs = 0",
            ["line 2: epochs", "got: 0 (int)", "greater than or equal to 1"],
        ),
        ("epochs = 3", 'epochs = "3"', ["line 2: epochs", "(str)", "integer"]),
        ("epochs = 3", "epochs = true", ["line 2: epochs", "(bool)"]),
        ("epochs = 3", "epochs = 3.0", ["line 2: epochs", "(float)"]),
        ("lr = 0.1", "lr = nan", ["line 6: optimiser.lr", "finite"]),
        ("lr = 0.1", "lr = -0.1", ["line 6: optimiser.lr", "greater than 0"]),
        (
            "lr = 0.1",
            "learning_rate = 0.1",
            ["line 6: optimiser.learning_rate is not a key", "allowed: beta1"],
        ),
        (
            "lr = 0.1",
            "lr = 0.1\nbeta1 = 0.9",
            ["line 7: optimiser.beta1", "sgd has no such option"],
        ),
        ('name = "sgd"', 'name = "sdg"', ["line 5: optimiser.name", "did you mean 'sgd'?"]),
        (
            'name = "cosine"',
            'name = "cosine"\nwarmup = 3',
            ["line 10: schedule.warmup", "leave none of 3"],
        ),
        (
            'name = "cosine"',
            'name = "cosine"\nend = 1.0',
            ["line 10: schedule.end", "above the initial rate"],
        ),
        (
            'name = "cosine"',
            'name = "step"\nat = [5]',
            ["line 10: schedule.at", "after epoch 5 of 3"],
        ),
        ('name = "cosine"', 'name = "phases"', ["schedule.phases", "at least one"]),
        (
            'name = "cosine"',
            'name = "cosine"\n[augment]\nflp = true',
            ["line 11: augment.flp", "did you mean 'flip'?"],
        ),
        (
            'name = "cosine"',
            'name = "cosine"\n[augment]\nshift = -1',
            ["augment", "an integer >= 0"],
        ),
        ('name = "cosine"', "name = ", ["mine.toml is not valid TOML", "line 9"]),
        ("epochs = 3", "epochs = 3\nepochs = 4", ["not valid TOML"]),
        (
            "epochs = 3",
            "[loss]\nname = 'mse'\nlabel_smoothing = 0.1",
            ["loss.label_smoothing", "mse has none"],
        ),
    ],
)
def test_what_is_wrong_is_named_with_file_line_key_and_remedy(tmp_path, old, new, said):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(ArgumentError) as found:
        find_recipe(str(path))
    assert all(part in str(found.value) for part in said), str(found.value)
    assert "\n" not in str(found.value)


def test_a_recipe_that_is_not_there_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'iieu_cifar'"):
        find_recipe("iieu_cifr")


@pytest.mark.parametrize(
    "name", ["missing.toml", "folder.toml", "nul\0.toml", "x" * 5000 + ".toml"]
)
def test_a_file_that_cannot_be_read_is_our_error(tmp_path, name):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(FileError, match="cannot be read"):
        find_recipe(f"{tmp_path}/{name}")


@pytest.mark.parametrize(
    "data", [b"\xff\xfe", b"x = " + b"[" * 5000, b"#" * 2_000_000, b"x = 1" + b"0" * 6000]
)
def test_hostile_bytes_are_our_error(tmp_path, data):
    (tmp_path / "a.toml").write_bytes(data)
    with pytest.raises(ArgumentError):
        find_recipe(f"{tmp_path}/a.toml")


def test_changes_are_put_in_place_of_the_recipe_s_own():
    recipe = find_recipe(
        "iieu_cifar", changes=["optimiser.lr = 0.2", "epochs = 7", "augment.flip = false"]
    )
    assert (recipe.optimiser.lr, recipe.optimiser.momentum, recipe.epochs) == (0.2, 0.9, 7)
    assert recipe.augment == {"flip": False, "crop": [32, 4]}
    with pytest.raises(ArgumentError, match="did you mean 'epochs'"):
        find_recipe("adam", changes=["epoch = 3"])


def test_another_name_starts_its_table_anew_in_whatever_order_the_changes_come():
    for changes in (
        ["optimiser.lr = 0.2", "optimiser.name = 'adam'"],
        ["optimiser.name = 'adam'", "optimiser.lr = 0.2"],
    ):
        recipe = find_recipe("crelu_cifar", changes=[*changes, "schedule.name = 'constant'"])
        assert recipe.optimiser.model_fields_set == {"name", "lr"} and recipe.optimiser.lr == 0.2
        assert recipe.schedule.name == "constant" and recipe.augment == {"flip": True}
    assert (
        find_recipe("crelu_cifar", changes=["optimiser.name = 'sgd'"]).optimiser.momentum == 0.9
    )  # the same name


def test_the_digest_of_a_run_follows_what_decides_about_its_bits_and_nothing_else():
    one = run_config(model="mlp", recipe=read_recipe(TEXT))
    assert (
        one.digest
        == run_config(model="mlp", recipe=read_recipe(TEXT.replace("mine", "yours"))).digest
    )
    assert (
        one.digest
        == run_config(
            model="mlp", recipe=read_recipe(TEXT + "\n[loss]\nname = 'cross_entropy'")
        ).digest
    )
    others = [
        run_config(model="mlp", recipe=read_recipe(TEXT), seed=1),
        run_config(model="mlp", recipe=read_recipe(TEXT), unit="relu"),
        run_config(model="mlp", recipe=read_recipe(TEXT.replace("0.1", "0.2"))),
    ]
    assert len({one.digest, *(each.digest for each in others)}) == 4


def test_fields_of_nested_tables_are_found():
    assert "lr" in fields_at(Recipe, ("schedule", "phases", 0)) and "smoothing" in fields_at(
        Recipe, ("optimiser",)
    )


def test_another_package_adds_a_folder_of_recipes(tmp_path, monkeypatch):
    from gatewise.train.config import add_recipes, recipe_files

    monkeypatch.setattr(recipe_files, "_FOLDERS", list(recipe_files._FOLDERS))
    (tmp_path / "slow.toml").write_text((recipe_files._FOLDERS[0] / "adam.toml").read_text())
    with pytest.raises(UnknownNameError):
        find_recipe("slow")
    add_recipes(tmp_path)
    assert "slow" in recipes() and find_recipe("slow") == find_recipe("adam")


def test_an_unknown_recipe_lists_those_of_other_packages_too(monkeypatch, tmp_path):
    from gatewise.train.config import recipe_files

    (tmp_path / "from_elsewhere.toml").write_text("epochs = 1")
    monkeypatch.setattr(recipe_files, "_FOLDERS", recipe_files._FOLDERS[:1])
    monkeypatch.setattr(
        recipe_files, "load_extensions", lambda kind: recipe_files.add_recipes(tmp_path)
    )
    with pytest.raises(UnknownNameError) as refused:
        find_recipe("nope")
    assert refused.value.allowed == ", ".join(recipe_files.recipes())
    assert "from_elsewhere" in refused.value.allowed


def test_the_rate_of_comparisons_changes_no_run():
    adam = find_recipe("adam")
    assert (adam.optimiser.lr, adam.comparison_lr) == (3e-4, 3e-3)
    plain = adam.model_copy(update={"comparison_lr": None})
    configs = [run_config(model="small_cnn", recipe=recipe) for recipe in (adam, plain)]
    assert configs[0].digest == configs[1].digest and configs[0].plain == configs[1].plain
    assert find_recipe("adam", changes=["optimiser.lr = 0.01"]).comparison_lr is None
