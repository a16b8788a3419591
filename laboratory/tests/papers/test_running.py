"""An experiment writes complete files, resumes, and keeps the paper's numbers apart from ours."""

import csv
import math
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gatewise_papers.all_experiments import find_experiment
from gatewise_papers.common import (
    CellValues,
    Experiment,
    Findings,
    Line,
    Panel,
    Picture,
    Row,
    TableTraining,
    data_notes,
    data_of,
    depends_on,
    line,
    note_data,
    row,
    svg,
)

from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.files import read_json
from gatewise.stats import half_width, mean, standard_deviation
from gatewise.studies import CellCall, FunctionCell, import_study


@dataclass(frozen=True)
class SomeSettings:
    reduced: str = "half of it"
    size: int = 2


def experiment(found: Findings | None = None, *cells: tuple[str, Callable]) -> Experiment:
    """An experiment with cells that call functions without arguments."""

    def made(settings: SomeSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
        depends = depends_on(settings, seeds)
        return [FunctionCell(name, lambda _, work=work: work(), depends) for name, work in cells]

    return Experiment(
        "some/thing",
        "a thing",
        {"desk": SomeSettings(), "full": SomeSettings("")},
        findings=lambda values: found or Findings([], []),
        cells=made,
        seeds=3,
    )


def stop() -> None:
    raise KeyboardInterrupt


def one_panel(values) -> list[Panel]:
    return [
        Panel(
            "p",
            "x",
            "y",
            [Line("a", [1, 2], values, [0.1, None]), Line("a", [1, 2], [1, 2], theory=True)],
        )
    ]


def table(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_the_files_hold_what_was_found(tmp_path: Path):
    def findings(values: CellValues) -> Findings:
        rows = [row("mean", values["draw"], published=9.0, closed_form=1.5, compared=1)]
        return Findings(one_panel([1.0, None]), rows)

    drawn = experiment(None, ("draw", lambda: [1.0, 2.0, float("nan")]))
    told: list[str] = []
    done = replace(drawn, findings=findings).run("desk", out=tmp_path, tell=told.append)
    folder = tmp_path / "some" / "thing"
    record = read_json(folder / "results.json")
    (number,) = record["findings"]["rows"]
    assert number["ours"] == 1.5 and number["published"] == 9.0
    assert number["seeds"] == 2 and number["left_out"] == 1
    assert number["scale"] == "desk: half of it" and number["agrees"] is True
    assert record["seeds"] == [0, 1, 2]
    assert record["settings"] == {"reduced": "half of it", "size": 2}
    points = table(folder / "curves.csv")
    assert [point["mean"] for point in points] == ["1.0", "", "1.0", "2.0"]
    assert (folder / "figure.svg").read_bytes().startswith(b"<svg")
    assert table(folder / "rows.csv")[0]["published"] == "9.0"
    assert done.failed == [] and done.scale_in_words == "desk: half of it"
    assert told == ["draw"] and not list(tmp_path.rglob("unfinished*"))


def test_a_run_that_was_stopped_goes_on_from_its_export_alone(tmp_path: Path):
    worked: list[str] = []
    first = ("first", lambda: worked.append("first") or 1.0)
    second = ("second", lambda: worked.append("second") or 2.0)
    stopping = experiment(None, first, second)

    def stop_at_second(name: str) -> None:
        if name == "second":
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        stopping.run("desk", out=tmp_path, tell=stop_at_second)
    kept = tmp_path / "some/thing/unfinished.jsonl"
    done = len(worked)
    assert len(import_study(kept)[1]) == done >= 1
    shutil.rmtree(tmp_path / "some/thing/unfinished")  # as on another machine
    stopping.run("desk", out=tmp_path)
    assert worked == ["first", "second"]
    assert not list(tmp_path.rglob("unfinished*"))
    stopping.run("desk", out=tmp_path)
    assert worked == ["first", "second"] * 2  # a finished run is not remembered


def test_results_of_fewer_seeds_than_planned_keep_the_finished_cells(tmp_path: Path):
    worked: list[int] = []

    def cells(settings: SomeSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
        work = lambda seed: lambda _: worked.append(seed) or 1.0  # noqa: E731
        return [FunctionCell(f"seed {seed}", work(seed)) for seed in seeds]

    some = replace(experiment(), cells=cells)
    assert some.run("desk", 2, tmp_path).seeds == (0, 1)
    assert (tmp_path / "some/thing/results.json").exists()
    assert some.run("desk", None, tmp_path).seeds == (0, 1, 2)
    assert worked == [0, 1, 2] and not list(tmp_path.rglob("unfinished*"))


def test_an_image_is_drawn_beside_the_plots_and_is_not_among_their_points(tmp_path: Path):
    def drawn(pixels: list) -> bytes:
        panels = [Picture("image", pixels), *one_panel([1.0, 2.0])]
        experiment(Findings(panels, [])).run("desk", out=tmp_path)
        return (tmp_path / "some" / "thing" / "figure.svg").read_bytes()

    assert drawn([[[0.0, 0.0, 0.0]]]) != drawn([[[1.0, 0.0, 0.0]]])
    assert {point["panel"] for point in table(tmp_path / "some" / "thing" / "curves.csv")} == {"p"}


def test_what_was_done_with_other_seeds_or_settings_is_not_taken(tmp_path: Path):
    worked: list[str] = []
    asked = experiment(None, ("first", lambda: worked.append("first") or 1.0), ("second", stop))
    for scale, seeds in (("desk", 3), ("desk", 4), ("full", 3), ("desk", 3)):
        with pytest.raises(KeyboardInterrupt):
            asked.run(scale, seeds, tmp_path)
    assert len(worked) == 3


def test_impossible_numbers_of_seeds_are_refused(tmp_path: Path):
    for seeds in (0, -1, 1001, 1.5):
        with pytest.raises(ArgumentError, match="seeds"):
            experiment().run("desk", seeds, tmp_path)


def test_wrong_names_are_answered_with_the_right_ones(tmp_path: Path):
    with pytest.raises(UnknownNameError, match="did you mean 'desk'"):
        experiment().run("deskk", 1, tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean 'deep_gated/figure10'"):
        find_experiment("deep_gated/figure100")


def test_the_interval_is_students():
    values = [1.0, 2.0, 4.0, 3.0, 7.0]
    assert mean(values) == 3.4 and standard_deviation(values) == pytest.approx(2.302172886644268)
    assert half_width(values) == pytest.approx(
        8.610301581379264 * standard_deviation(values) / math.sqrt(5)
    )  # t of 4, 0.9995
    assert half_width(values, compared=10) > half_width(values)
    assert half_width([1.0]) == math.inf


def test_a_closed_form_outside_the_interval_does_not_agree():
    values = [1.0, 1.1, 0.9, 1.05, 0.95]
    assert row("a", values, closed_form=1.0, compared=1).agrees is True
    assert row("a", values, closed_form=2.0, compared=1).agrees is False
    assert row("a", values, closed_form=2.0).agrees is None
    assert (
        row("a", [2.0, 2.0], closed_form=2.0, compared=1).agrees is True
    )  # no spread, and no miss
    assert row("a", [None, math.nan]) == Row("a", None, None, 0, left_out=2, per_seed=[None, None])


def test_a_line_leaves_out_what_is_not_finite():
    drawn = line("a", [0, 1], [[1.0, None], [3.0, 5.0]])
    assert drawn.mean == [2.0, 5.0] and drawn.spread == [pytest.approx(math.sqrt(2)), 0.0]
    assert line("a", [0], [[None]]).mean == [None]


def test_a_picture_of_many_lines_has_room_for_its_legend_below():
    def height(count: int) -> float:
        lines = [Line(f"unit {i}", [1, 2], [i, i + 1]) for i in range(count)]
        file = svg("t", [Panel("p", "x", "y", lines)])
        return float(ElementTree.fromstring(file).get("height", "nan"))  # noqa: S314

    assert height(16) > height(7) > height(1)


def test_a_record_is_never_overwritten_at_another_scale(tmp_path: Path):
    found = experiment(Findings([], [Row("a", 1.0, None, 1)]))
    found.run("desk", out=tmp_path)
    kept = (tmp_path / "some/thing/results.json").read_bytes()
    with pytest.raises(ArgumentError, match=r"scale desk; .*fix: name another folder with --out"):
        found.run("full", out=tmp_path)
    assert (tmp_path / "some/thing/results.json").read_bytes() == kept
    found.run("desk", out=tmp_path)
    found.run("full", out=tmp_path / "elsewhere")


def test_finished_cells_are_not_joined_with_cells_of_other_data(tmp_path: Path):
    digests = ["a" * 64]

    def note() -> None:
        note_data("photos", digests[0])

    with pytest.raises(KeyboardInterrupt):
        experiment(None, ("first", note), ("second", stop)).run("desk", out=tmp_path)
    # A killed process writes nothing at its end, so the data is noted before the first cell ends.
    assert read_json(tmp_path / "some/thing/unfinished_data.json") == {"photos": "a" * 64}
    digests[0] = "b" * 64
    with pytest.raises(ArgumentError, match=r"photos is not the one.*bbb.*aaa"):
        experiment(None, ("first", note), ("second", note)).run("desk", out=tmp_path)
    experiment(None, ("first", note)).run("desk", out=tmp_path / "elsewhere")


def test_workers_are_not_started_with_other_data_than_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The process that starts workers reads the data first, and cells count for its content."""
    training = TableTraining("digits", "adam", ("epochs = 1",), {"train": 50})
    config = training.config("mlp", 0)
    trained = Experiment(
        name="some/thing",
        title="a thing",
        scales={"desk": SomeSettings()},
        cells=lambda settings, seeds: [FunctionCell("one", counted_cell)],
        findings=lambda values: Findings([], [row("a", [values["one"]])]),
        trainings=lambda settings, seeds: {"mlp": [config]},
    )
    trained.run("desk", out=tmp_path)
    other = replace(data_of(config), digest="b" * 64)
    monkeypatch.setattr(data_notes, "_load", lambda *_: other)
    with pytest.raises(ArgumentError, match=r"data set digits .* is not the one of the record"):
        trained.run("desk", out=tmp_path)
    assert not (tmp_path / "some/thing/unfinished").exists()  # nothing has run
    elsewhere = trained.run("desk", out=tmp_path / "elsewhere")
    assert elsewhere.data_sha256 == {'digits {"train": 50}': "b" * 64}


def counted_cell(cell: CellCall) -> int:
    return 1
