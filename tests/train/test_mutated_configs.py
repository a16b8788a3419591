"""I1, X2: a mutated configuration ends in one line and exit 2, before data are read.

300 of them; 10,000 with GATEWISE_FULL=1.
"""

import os
import random
import re
import sys

import pytest
from effort import count_calls
from mutated_tables import HOSTILE, mutate, written
from typer.testing import CliRunner

from gatewise.cli import app
from gatewise.train.config import find_recipe, recipes

FULL = os.environ.get("GATEWISE_FULL") == "1"
COUNT = 10_000 if FULL else 300
FORBIDDEN = re.compile(
    r"os\.(system|exec|posix_spawn|spawn|startfile|remove|rename|mkdir)|subprocess\.|socket\.|pickle\."
)
MODELS = ["small_cnn", "mlp", "convpool_cnn", "mlpp", *HOSTILE[:4]]
watched: dict = {"on": False, "seen": []}


def watch(event, arguments):
    if watched["on"] and FORBIDDEN.match(event):
        watched["seen"].append((event, str(arguments)[:100]))


sys.addaudithook(watch)


def arguments(chance: random.Random, path) -> list[str]:
    """A command whose other words are mutated too, now and then."""

    def sometimes(right, wrong):
        return chance.choice(wrong) if chance.random() < 0.15 else right

    words = [
        sometimes("small_cnn", MODELS),
        "--recipe",
        str(path),
        "--data",
        sometimes("digits", HOSTILE),
    ]
    words += ["--unit", sometimes("crelu", [*HOSTILE, "rellu", "psc"])]
    if chance.random() < 0.2:
        value = chance.choice(
            [*HOSTILE, "4", "[4, 4]", "[1e9]", "[100000000, 100000000]", "nan", "[", "true", "-3"]
        )
        words += [
            "--set",
            f"{chance.choice(['widths', 'norm', 'classes', 'withs', ''])}={value}",
        ]
    if chance.random() < 0.2:
        words += [
            "--recipe-option",
            chance.choice(
                ["optimiser.lr=x", "epochs=0", "=1", "a", "schedule=3", "loss.name=mse", "a.b.c=1"]
            ),
        ]
    return words


@pytest.fixture
def no_data_are_read(monkeypatch):
    def read(*_, **__):
        raise AssertionError("data were read")

    monkeypatch.setattr("gatewise.train.loop.assembly.load", read)
    monkeypatch.setenv("NO_COLOR", "1")


def outcome(path, words) -> tuple[int, str, int]:
    """Exit code, what was said on stderr, and how many function calls that took."""
    command = ["train", *words, "--out", str(path.with_name("run")), "--dry-run"]
    watched.update(on=True, seen=[])
    try:
        result, calls = count_calls(lambda: CliRunner().invoke(app, command))
    finally:
        watched["on"] = False
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(
        result.exception
    )
    return result.exit_code, result.stderr, calls


@pytest.mark.slow
def test_mutated_configurations_end_in_one_line_and_exit_2(tmp_path, no_data_are_read):
    chance = random.Random(2)  # noqa: S311  not for secrets
    tables = [
        find_recipe(name).model_dump(exclude_unset=True) | {"augment": {"flip": True, "shift": 1}}
        for name in recipes()
    ]
    path, codes = tmp_path / "a.toml", []
    outcome(path, ["mlp"])  # imports are done
    most = 20 * outcome(path, ["mlp"])[2]  # no input may take much more than a valid one
    for _ in range(COUNT):
        text, words = mutate(chance.choice(tables), chance), arguments(chance, path)
        path.write_text(text, errors="surrogatepass")
        code, said, calls = outcome(path, words)
        assert code in (0, 2) and calls < most, (code, calls, words, text)
        if code == 2:
            assert said.count("\n") == 1 and said.startswith("error: ") and len(said) < 2100, (
                said,
                words,
                text,
            )
        assert not watched["seen"], (watched["seen"], words, text)
        codes.append(code)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.toml"]  # nothing was written
    assert (
        codes.count(2) > COUNT / 2 and codes.count(0) > COUNT / 30
    )  # most are wrong, and some changes do no harm


def test_the_recipes_unchanged_are_possible(tmp_path, no_data_are_read):
    """As written back by the writer above, so that its own mistakes would show."""
    for name in recipes():
        path = tmp_path / "a.toml"
        path.write_text(written(find_recipe(name).model_dump(exclude_unset=True) | {"augment": {}}))
        assert outcome(path, ["small_cnn", "--recipe", str(path)])[0] == 0
