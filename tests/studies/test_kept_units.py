"""The study of units in ``results``: complete, and told as it is in the documentation."""

import re
from pathlib import Path

import pytest

from gatewise.studies import read_study

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results/units_cifar10"
DIFFERS = ("better", "worse")
HEAD = "| unit | test accuracy in % | minus ReLU in points | verdict |\n|---|---|---|---|\n"


@pytest.fixture(scope="module")
def result():
    return read_study(FOLDER)


def in_points(difference) -> str:
    low, high = difference.interval
    numbers = (100 * value for value in (difference.difference, low, high))
    return "{:+.2f} [{:+.2f}, {:+.2f}]".format(*numbers).replace("-", "−")


def verdict(difference) -> str:
    return ": ".join(filter(None, (difference.verdict, difference.reason)))


def test_every_run_is_there_and_eight_seeds_are_compared(result):
    assert result.tuned and not result.damaged
    assert {run.status for run in result.runs} == {"finished", "diverged"}
    final = [run for run in result.runs if run.role == "final"]
    assert len(final) == 96 and all(run.status == "finished" for run in final)
    assert len(result.runs) == 176
    assert not any("not confirmed" in one.reason for one in result.compare().differences)


def test_the_page_of_the_documentation_has_its_numbers(result):
    (block,) = result.blocks
    values = result.values(block)
    table = (ROOT / "docs/units_cifar10.md").read_text().split(HEAD)[1].split("\n\n")[0]
    rows = {}
    for line in table.splitlines():
        unit, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[unit] = cells
    assert rows.keys() == values.keys()
    for unit, seeds in values.items():
        assert rows[unit][0] == f"{100 * sum(seeds.values()) / len(seeds):.2f}", unit
    for difference in result.compare().differences:
        assert rows[difference.name][1:] == [in_points(difference), verdict(difference)]


def test_the_readme_names_just_the_units_that_differ(result):
    caption = (ROOT / "README.md").read_text().split("</picture>")[1].split("\n\n- ")[0]
    told = dict(re.findall(r"`([\w ]+)`\s\(([+−][\d.]+ \[[^]]+\])\)", caption))
    differing = {
        one.name: in_points(one) for one in result.compare().differences if one.verdict in DIFFERS
    }
    assert told == differing


def test_the_kept_page_is_that_of_the_records(result):
    page = (FOLDER / "report.html").read_text()
    for difference in result.compare().differences:
        assert in_points(difference) in page
