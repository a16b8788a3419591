"""gatewise bench: verdicts, files and comparisons. Times themselves are not tested."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gatewise.cli import app
from gatewise.errors import ArgumentError
from gatewise.speed import (
    LINES,
    Line,
    Row,
    Timing,
    block_lines,
    changes,
    compare_times,
    kept_bytes,
    lines,
    machine_facts,
    measure_lines,
    measure_on,
    profiles,
    read_rows,
    rows_as_csv,
    speed_page,
)


def line(target: float, relation: str, measured: float) -> Line:
    timing = Timing(measured, measured - 0.1, measured + 0.1, 9)
    return Line("relu/made", "x over y", target, relation, lambda _: (timing, "fused"))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("relation", "measured", "verdict"),
    [("at most", 1.1, "met"), ("at most", 1.3, "missed"), ("at least", 1.3, "met")],
)
def test_a_line_is_met_or_missed_with_its_reason(relation: str, measured: float, verdict: str):
    (row,) = measure_lines([line(1.2, relation, measured)], seconds=0)
    assert row.verdict == verdict and row.form == "fused"
    assert row.reason == ""  # nothing is known of this line
    known = replace(
        line(1.2, relation, measured),
        name="relu/meta_acon",
        profile=lambda target: f"PROFILE {target}",
    )
    (row,) = measure_lines([known], seconds=0)
    assert row.reason.endswith("; PROFILE 1.2") if verdict == "missed" else row.reason == ""
    assert "means over positions" in known.explain(Timing(1, 1, 1, 1))


def test_a_missed_line_names_the_operators_of_both_sides():
    a = torch.randn(300, 300)

    def ours() -> object:
        return a @ a @ a

    def theirs() -> object:
        return a.exp()

    timing = compare_times(ours, theirs, seconds=0)
    slower = Line("made/line", "x over y", 0.0, "at most", lambda _: (timing, "native"))
    (row,) = measure_lines([slower], seconds=0)
    ours_said, theirs_said = row.reason.split("; theirs ")
    assert "mm" in ours_said and "exp" in theirs_said and " ms (" in ours_said
    throughput = replace(slower, relation="at least", target=1e9)
    (row,) = measure_lines([throughput], seconds=0)
    assert "exp" in row.reason.split("; theirs ")[0]  # the sides of a throughput are exchanged


@pytest.mark.parametrize(
    ("cached", "target", "said"),
    [
        (2.0, 0.9, "arithmetic: "),
        (1.0, 0.9, "memory and calls: "),
        (2.0, 1.1, "within the target in the profile"),
    ],
)
def test_arithmetic_is_the_reason_if_it_takes_most_of_the_time(monkeypatch, cached, target, said):
    elements = 64 * 32 * 32
    monkeypatch.setattr(profiles, "_nanoseconds_in_cache", lambda function, dtype: cached)
    monkeypatch.setattr(profiles, "seconds_of", lambda step: 3e-9 * elements)
    words = profiles.cache_in_words(torch.sin, torch.relu, target, (1, 64, 32, 32))
    assert words.startswith(said) and words.endswith("on these maps 3.00 and 3.00")


def test_the_time_in_the_cache_is_that_of_one_element_more(monkeypatch):
    small, large = (torch.Size(shape).numel() for shape in profiles.CACHED)
    sizes = iter([small, large] * profiles.REPEATS)
    # Every call costs a microsecond, every element 2 ns.
    monkeypatch.setattr(
        profiles,
        "seconds_of",
        lambda step: profiles.REPEATS * (1e-6 + 2e-9 * next(sizes)),
    )
    assert profiles._nanoseconds_in_cache(torch.sin, torch.float32) == pytest.approx(2.0)


def test_rows_are_read_as_they_were_written(tmp_path: Path):
    rows = measure_lines([line(1.2, "at most", 1.3)], seconds=0)
    path = tmp_path / "bench.csv"
    path.write_text(rows_as_csv(rows, machine_facts()))
    assert read_rows(path) == rows
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ArgumentError, match="not a table"):
        read_rows(path)


def test_only_clear_changes_are_named():
    (old,) = measure_lines([line(1.2, "at most", 1.0)], seconds=0)
    assert changes([old], [replace(old, measured=1.3, low=1.05, high=1.5)]) == []
    slower = replace(old, measured=2.0, low=1.9, high=2.1)
    assert changes([old], [slower]) == ["relu/made rose from 1.00 to 2.00"]


def test_twice_the_work_takes_longer_and_rounds_are_counted():
    x = torch.randn(1 << 16)

    def once() -> Tensor:
        return x.exp()

    def often() -> None:
        for _ in range(20):
            x.exp()

    timing = compare_times(often, once, seconds=0.0)
    assert timing.rounds >= 5 and timing.low <= timing.ratio <= timing.high and timing.ratio > 2


def test_kept_bytes_are_those_of_distinct_storages():
    x = torch.randn(10, requires_grad=True)
    assert kept_bytes(lambda: x.exp().sum()) == 40
    assert kept_bytes(lambda: (x * x).sum()) == 40
    assert kept_bytes(lambda: (x * x).sum(), x) == 0


def test_the_page_shows_every_line():
    rows = measure_lines([line(1.2, "at most", 1.3)], seconds=0)
    page = speed_page(rows, machine_facts() | {"memory_floor": "0.9"})
    assert "relu/made" in page and "memory floor" in page and "0 of 1 targets" in page


def test_the_command_lists_and_refuses():
    shown = CliRunner().invoke(app, ["bench", "--list"])
    assert shown.exit_code == 0 and shown.output.count("\n") == len(LINES)
    assert CliRunner().invoke(app, ["bench", "nothing/"]).exit_code == 2


def test_the_command_measures_and_prints_json(tmp_path: Path):
    out = tmp_path / "bench.csv"
    shown = CliRunner().invoke(
        app, ["bench", "kept/prelu", "--seconds", "0", "--json", "--out", str(out)]
    )
    assert shown.exit_code == 0
    (row,) = json.loads(shown.stdout)["rows"]
    assert Row(**row) == read_rows(out)[0] and row["verdict"] == "met"


@pytest.mark.skipif(torch.cuda.is_available(), reason="shows what is said without a GPU")
def test_without_a_gpu_the_command_says_so():
    shown = CliRunner().invoke(app, ["bench", "--device", "cuda", "kept/prelu"])
    assert shown.exit_code == 2 and "it cannot be used here" in shown.output
    assert CliRunner().invoke(app, ["bench", "--device", "meta", "--list"]).exit_code == 2


def test_a_gpu_takes_the_time_by_its_own_events(monkeypatch: pytest.MonkeyPatch):
    class Event:
        count = 0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.count += 1
            self.milliseconds = 3.0 * Event.count

        def synchronize(self) -> None:
            self.is_over = True

        def elapsed_time(self, last: "Event") -> float:
            assert last.is_over
            return last.milliseconds - self.milliseconds

    monkeypatch.setattr(torch.cuda, "Event", Event)
    with measure_on(torch.device("cuda")):
        timing = compare_times(lambda: None, lambda: 1, seconds=0.0)
    assert timing.ratio == 1.0 and Event.count == 4 * (timing.rounds + 2)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "prefix", sorted({each.name.partition("/")[0] for each in LINES} - {"plain"})
)
def test_every_line_is_made_on_the_device_that_is_measured(
    prefix: str, monkeypatch: pytest.MonkeyPatch
):
    def once(*functions, seconds: float) -> Timing:
        for function in functions:
            function()
        return Timing(1.0, 1.0, 1.0, 1)

    def one_byte(function, *without: Tensor) -> int:
        assert function().is_meta
        return 1

    for module in (lines, block_lines):
        monkeypatch.setattr(module, "compare_times", once)
        monkeypatch.setattr(module, "kept_bytes", one_byte)
    # A tensor left on the processor is an error of torch beside one on `meta`.
    chosen = [each for each in LINES if each.name.startswith(f"{prefix}/")]
    with measure_on(torch.device("meta")):
        for each in chosen:
            each.measure(0.0)


Tensor = torch.Tensor


def test_the_file_to_compare_with_is_looked_for_before_anything_is_measured(tmp_path: Path):
    shown = CliRunner().invoke(app, ["bench", "relu/", "--compare", str(tmp_path / "missing.csv")])
    assert shown.exit_code == 2 and "no such file to compare with" in shown.stderr
