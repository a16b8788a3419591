"""A study file: its short forms, its errors and their places, and mutated files (I1, X2)."""

import os
import random
import re
import sys

import pytest
from effort import count_calls
from mutated_tables import mutate, written
from small_studies import small_table
from typer.testing import CliRunner

from gatewise.cli import app
from gatewise.errors import ArgumentError
from gatewise.studies.older import Study, presets

FULL = os.environ.get("GATEWISE_FULL") == "1"
COUNT = 10_000 if FULL else 150
FORBIDDEN = re.compile(
    r"os\.(system|exec|posix_spawn|spawn|startfile|remove|rename|mkdir)|subprocess\.|socket\.|pickle\."
)
watched: dict = {"on": False, "seen": []}


def watch(event, arguments):
    if watched["on"] and FORBIDDEN.match(event):
        watched["seen"].append((event, str(arguments)[:100]))


sys.addaudithook(watch)

SHORT = 'units = ["relu", {name = "beta_vq", pieces = "abs"}]\nbackbones = ["mlp"]\nseeds = 3\n'
FULL_FORM = """
baseline = "relu"
seeds = [0, 1, 2]
units = [
    {name = "relu"},
    {name = "beta_vq", label = "beta_vq(pieces=abs)", options = {pieces = "abs"}},
]
[[backbones]]
name = "mlp"
model = "mlp"
[[data]]
name = "digits"
label = "digits"
[recipe]
base = "adam"
"""


def test_the_short_form_means_the_full_form():
    assert Study.read(SHORT).plain == Study.read(FULL_FORM).plain


@pytest.mark.parametrize("name", presets())
def test_presets_are_studies(name):
    assert Study.load(name).table.size > 1


def test_the_demo_is_the_protocol_that_was_fixed():
    table = Study.load("demo").table
    labels = ["relu", "leaky_relu", "swish", "beta_vq abs", "crelu", "psc", "iieu_b", "soft_relu"]
    assert [unit.label for unit in table.units] == labels and table.baseline == "relu"
    assert table.size == 160 and len(table.seeds) == 10
    assert (table.match, table.match_within) == ("parameters", 0.02)
    conv, mlp = table.backbones
    assert (conv.model, conv.options) == ("small_cnn", {"widths": [16, 32, 32], "norm": True})
    assert (mlp.model, mlp.options) == ("mlp", {"widths": [128, 128], "norm": False})
    assert [(data.name, data.options) for data in table.data] == [
        ("digits", {"train": 300, "shift_test": 1})
    ]
    recipes = [table.recipes_for(backbone) for backbone in table.backbones]
    assert [len(one) for one in recipes] == [1, 1]
    assert [one[0].epochs for one in recipes] == [60, 120]
    for [recipe] in recipes:
        assert (recipe.optimiser.name, recipe.schedule.name) == ("adamw", "cosine")
        assert recipe.augment == {"shift": 1} and recipe.batch == 100
    assert (table.tune.name, table.tune.lr) == ("quick", [1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1])


@pytest.mark.parametrize(
    "text, said",
    [
        ("unit = []\n" + SHORT, r"study, line 1: unit is not a key here.*did you mean 'units'"),
        (SHORT + "[[backbones2]]\nx = 1", r"line 4: backbones2 is not a key here"),
        (
            SHORT + "[recipe]\nepochs = 3\n[recipe.optimiser]\nlrate = 0.1\n",
            r"line 7: recipe.optimiser.lrate",
        ),
        (SHORT + "[recipe]\nepochs = -3", r"line 5: recipe.epochs is not allowed; got: -3"),
        (
            SHORT + '[[data]]\nname = "digits"\n[[data]]\nname = 3',
            r"line 7: data.1.name is not allowed",
        ),
        (SHORT + 'baseline = "rellu"', r"line 4: baseline is not possible.*did you mean 'relu'"),
        (SHORT + 'match = "params"', r"match is not allowed.*did you mean 'parameters'"),
        (SHORT + "match_within = 0.9", r"match_within is not allowed"),
        (SHORT + 'recipe = "adm"', r"no recipe of that name.*did you mean 'adam'"),
        (SHORT + 'recipe = "adam"\nrecipes = ["sgd"]', r"recipe is not possible"),
        (SHORT + "tune = {lr = [0.1]}", r"tune.lr is not allowed"),
        (SHORT.replace("seeds = 3", "seeds = 0"), r"seeds is not allowed; got: 0"),
        (SHORT.replace("seeds = 3", "seeds = [1, 1]"), r"seeds is not possible.*1 appears twice"),
        (
            SHORT.replace('"relu", ', '"relu", "relu", '),
            r"units is not possible.*relu appears twice",
        ),
        ("seeds = ", r"study is not valid TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, said):
    with pytest.raises(ArgumentError, match=said):
        Study.read(text)


def outcome(path, out) -> tuple[int, str, int]:
    """Exit code, what was said on stderr, and how many function calls that took."""
    command = ["compare", str(path), "--out", str(out), "--dry-run"]
    watched.update(on=True, seen=[])
    try:
        result, calls = count_calls(lambda: CliRunner().invoke(app, command))
    finally:
        watched["on"] = False
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    return result.exit_code, result.stderr, calls


@pytest.mark.thorough
def test_mutated_studies_end_in_one_line_and_exit_2(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("gatewise.data.catalogue.choose", None)  # data are not read
    chance = random.Random(3)  # noqa: S311  not for secrets
    table = small_table(
        name="a",
        baseline="relu",
        match="parameters",
        match_within=0.3,
        tune={"lr": [0.1, 0.01]},
        units=["relu", {"name": "crelu"}],
    )
    path, codes = tmp_path / "a.toml", []
    path.write_text(written(table))
    assert outcome(path, tmp_path / "out")[0] == 0  # as written, and imports are done
    most = 20 * outcome(path, tmp_path / "out")[2]  # no input may take much more than a valid one
    for _ in range(COUNT):
        text = mutate(table, chance)
        path.write_text(text, errors="surrogatepass")
        code, said, calls = outcome(path, tmp_path / "out")
        assert code in (0, 2) and calls < most, (code, calls, said, text)
        if code == 2:
            assert said.count("\n") == 1 and said.startswith("error: ") and len(said) < 2100, (
                said,
                text,
            )
        assert not watched["seen"], (watched["seen"], text)
        codes.append(code)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.toml"]  # nothing was written
    assert codes.count(2) > COUNT / 2 and codes.count(0) > COUNT / 30
