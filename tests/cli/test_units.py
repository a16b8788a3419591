"""``gatewise list units`` and its commands: what they print and write, and how they end."""

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import pytest

from gatewise.cli.output import EVEN, evaluate, measured_errors, sweep, unit_facts
from gatewise.report.gallery import LIGHT_STYLES
from gatewise.units.contract import FAMILIES, PAPERS, get_unit, registered_units

NAMES = sorted(registered_units())


def test_the_table_names_every_unit_and_fits_in_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    from typer.testing import CliRunner

    from gatewise.cli import app

    result = CliRunner().invoke(app, ["list", "units"], env={"COLUMNS": "80"})
    assert result.exit_code == 0
    first_words = {line.split()[0] for line in result.stdout.splitlines() if line.strip()}
    assert first_words >= set(NAMES)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_in_a_pipe_each_unit_is_one_line(run, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    lines = run("list", "units").stdout.splitlines()
    for name, unit in registered_units().items():
        line = next(line for line in lines if line.split()[:1] == [name])
        assert unit.title in line and all(paper in line for paper in unit.studied_in)


def test_no_colour_and_no_trailing_blanks_where_it_is_not_a_terminal(run):
    for arguments in (["list", "units"], ["list", "recipes"]):
        text = run(*arguments).stdout
        assert "\x1b" not in text
        assert all(line == line.rstrip() for line in text.splitlines())


def test_json_holds_every_unit_and_only_json(run):
    found = json.loads(run("list", "units", "--json").stdout)
    assert [unit["name"] for unit in found] == list(registered_units())
    crelu = next(unit for unit in found if unit["name"] == "crelu")
    assert crelu["channel_ratio"] == 2 and crelu["spans"]["identity"] == [1.0, -1.0]
    assert crelu["limits"] == {"minus": [0.0, "inf"], "plus": ["inf", 0.0]}
    assert crelu["kinks"] == [{"x": 0.0, "derivative": 0.0}]


@pytest.mark.parametrize("family", FAMILIES)
def test_filter_by_family(run, family):
    found = json.loads(run("list", "units", "--family", family, "--json").stdout)
    assert [u["name"] for u in found] == [
        name for name, u in registered_units().items() if u.family == family
    ]


@pytest.mark.parametrize("paper", PAPERS)
def test_filter_by_paper(run, paper):
    found = json.loads(run("list", "units", "--paper", paper, "--json").stdout)
    assert [u["name"] for u in found] == [
        name for name, u in registered_units().items() if paper in u.studied_in
    ]


def test_a_filter_that_nothing_passes_gives_an_empty_list(run):
    assert (
        json.loads(run("list", "units", "--family", "context", "--paper", "dgn", "--json").stdout)
        == []
    )
    assert "0 units" in run("list", "units", "--family", "context", "--paper", "dgn").stdout


@pytest.mark.parametrize("name", NAMES)
def test_show_says_everything_about_every_unit(run, quick_measure, name):
    result = run("list", "units", name)
    assert result.exit_code == 0, result.stderr
    unit, flat = get_unit(name), " ".join(result.stdout.split())
    assert unit.title in flat and unit.paper in flat and FAMILIES[unit.family] in flat
    assert all(option in flat for option in unit.options)
    assert "float16" in flat and "backward" in flat
    assert " ".join(unit.note.split()) in flat


def test_show_json_holds_facts_options_and_errors(run, quick_measure):
    found = json.loads(run("list", "units", "leaky_relu", "--json").stdout)
    assert found["options"] == {"slope": "0.01"}
    assert found["pieces"] == [{"slope": 0.01, "offset": 0.0}, {"slope": 1.0, "offset": 0.0}]
    assert len(found["measured"]) == 6 and found["measured"][0]["kept"] is True


def test_show_draws_a_picture(run, quick_measure, tmp_path):
    target = tmp_path / "crelu.svg"
    assert run("list", "units", "crelu", "--plot", target).exit_code == 0
    first = target.read_bytes()
    assert first.startswith(b"<svg")
    run("list", "units", "crelu", "--plot", target)
    assert target.read_bytes() == first, "the same unit gives the same bytes"


def test_show_measures_for_real(run):
    found = json.loads(run("list", "units", "relu", "--json").stdout)
    assert all(row["kept"] for row in found["measured"])
    assert {row["dtype"] for row in found["measured"]} == {"float16", "bfloat16", "float32"}


@pytest.mark.slow
def test_gallery_writes_one_page_with_every_unit(run, quick_measure, tmp_path):
    target = tmp_path / "units.html"
    result = run("list", "units", "--page", target)
    assert result.exit_code == 0 and result.stdout == ""
    page = target.read_text(encoding="utf-8")
    assert all(f'id="unit-{name}"' in page for name in NAMES)
    assert f"All {len(NAMES)} units stay within their error bound" in page
    assert len(page.encode()) < 3_000_000
    run("list", "units", "--page", target)
    assert target.read_text(encoding="utf-8") == page, "the same measurements give the same page"


def test_no_more_curves_are_drawn_than_can_be_told_apart():
    plot = sweep(get_unit("beta_vq"))
    assert len(plot.curves) == 1 + LIGHT_STYLES and "more sample options" in plot.about


@pytest.mark.slow
def test_a_broken_promise_is_exit_1_and_said(quick_measure, tmp_path, capsys):
    path = Path(__file__).parents[2] / "tools/measure_unit_errors.py"
    spec = importlib.util.spec_from_file_location("measure_unit_errors", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    target = tmp_path / "errors.md"
    assert script.main([str(target)]) == 0
    assert all(name in target.read_text() for name in NAMES)
    quick_measure.add("gelu")
    assert script.main([str(target)]) == 1
    assert "gelu, float16 forward: promised" in capsys.readouterr().err


@pytest.mark.slow
def test_a_broken_promise_is_on_the_page(run, quick_measure, tmp_path):
    quick_measure.add("gelu")
    run("list", "units", "--page", tmp_path / "units.html")
    page = (tmp_path / "units.html").read_text(encoding="utf-8")
    assert f"1 of {len(NAMES)} units exceeds its error bound" in page


@pytest.mark.parametrize("name", NAMES)
def test_curves_are_the_unit_s_own(name):
    unit = get_unit(name)
    plot = sweep(unit)
    ratio = unit_facts.fact(unit, "channel_ratio")
    assert len(plot.curves[0].lines) == max(Fraction(1), ratio)
    low, high = EVEN[49], EVEN[94]  # no unit has a kink there
    values, slopes = evaluate(unit, unit.samples[0], [low, high])
    for line, value, slope in zip(plot.curves[0].lines, values, slopes, strict=True):
        assert dict(line.value)[low] == pytest.approx(value[0], abs=1e-12)
        assert dict(line.slope)[high] == pytest.approx(slope[1], abs=1e-12)
    assert {kink.x for kink in plot.kinks} == set(unit.fact("kinks", **unit.samples[0]))


def test_the_two_halves_of_crelu_are_two_lines():
    first, second = sweep(get_unit("crelu")).curves[0].lines
    assert (dict(first.value)[2.0], dict(second.value)[2.0]) == (2.0, 0.0)
    assert (dict(first.slope)[-2.0], dict(second.slope)[-2.0]) == (0.0, -1.0)


def test_rows_keep_the_worst_of_all_options(quick_measure):
    from dataclasses import replace

    from gatewise.testing import measure

    good = measure(get_unit("relu"))
    bad = replace(good[0], options="slope=0.5", ulps=7.0, kept=False)
    row = measured_errors.rows([*good, bad])[0]
    assert (row.ulps, row.kept, row.inputs) == (7.0, False, 2 * 65536)


@pytest.mark.parametrize(
    "weights, text",
    [
        ((1.0, -1.0), "first − second"),
        ((0.0, 2.0), "2 second"),
        ((-1.0,), "−output"),
        ((0.0,), "0"),
    ],
)
def test_sums_of_parts_read_as_sums(weights, text):
    assert unit_facts.spans({"abs": weights}) == f"abs = {text}"
