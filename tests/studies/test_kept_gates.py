"""The study of gates in ``results``: complete, and told as it is in the documentation."""

from pathlib import Path

import pytest

from gatewise.studies import read_study
from gatewise.studies.answer.verdicts import example_noun

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results/gates_text"


@pytest.fixture(scope="module")
def result():
    return read_study(FOLDER)


def told() -> dict[str, list[str]]:
    """The rows of the table on the page of language models."""
    text = (ROOT / "docs/language_models.md").read_text()
    table = text.split("| gate | bits per byte | minus ReLU | verdict |\n|---|---|---|---|\n")[1]
    rows = {}
    for line in table.split("\n\n")[0].splitlines():
        gate, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[gate] = cells
    return rows


def test_every_run_is_there_and_eight_seeds_are_compared(result):
    assert result.tuned and not result.damaged
    assert all(run.status == "finished" for run in result.runs)
    (block,) = result.blocks
    values = result.values(block)
    assert len(values) == 8 and all(len(seeds) == 8 for seeds in values.values())


def test_the_page_of_the_documentation_has_its_numbers(result):
    (block,) = result.blocks
    rows = told()
    values = result.values(block)
    assert rows.keys() == values.keys()
    for unit, seeds in values.items():
        assert rows[unit][0] == f"{sum(seeds.values()) / len(seeds):.2f}", unit
    for difference in result.compare().differences:
        low, high = difference.interval
        words = f"{difference.difference:+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−")
        assert rows[difference.name][1:] == [words, difference.verdict]


def test_its_examples_are_texts(result):
    assert example_noun(result) == "texts"
