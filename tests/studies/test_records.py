"""Runs made elsewhere: tables of every layout, exports of other tools, and what is said of them."""

import csv
import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import gatewise as gw
from gatewise.errors import ArgumentError, FileError
from gatewise.stats import compare_runs
from gatewise.studies import comparison_csv

METHODS = {"relu": 0.0, "gelu": 0.01, "tanh": -0.03}
SEEDS = range(8)


def values() -> dict[str, dict[int, float]]:
    """Accuracies with four digits: gelu better, tanh worse."""
    random = np.random.default_rng(0)
    base = random.normal(0.9, 0.005, len(SEEDS))
    return {
        method: {
            seed: round(float(base[seed] + gain + random.normal(0, 0.002)), 4) for seed in SEEDS
        }
        for method, gain in METHODS.items()
    }


def long_rows(extra: dict[str, object] | None = None) -> list[dict[str, object]]:
    return [
        {"activation": method, "seed": seed, "test_acc": value, **(extra or {})}
        for method, runs in values().items()
        for seed, value in runs.items()
    ]


def write_csv(path: Path, rows: list[dict[str, object]], delimiter: str = ",") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def check(result, *, method: str = "paired t") -> None:
    """The comparison is that of the plain values, however they were stored."""
    assert (result.baseline, result.higher_is_better) == ("relu", True)
    comparison = result.compare()
    if method == "paired t":
        want = compare_runs(values(), "relu", resolution=1e-4)
        assert {row.name: row for row in comparison.differences} == {
            row.name: row for row in want.differences
        }
    assert {row.name: row.verdict for row in comparison.differences} == {
        "gelu": "better",
        "tanh": "worse",
    }
    assert {row.method for row in comparison.differences} == {method}


def test_a_long_csv_is_read_and_its_columns_are_named(tmp_path) -> None:
    result = gw.compare_records(write_csv(tmp_path / "runs.csv", long_rows()))
    check(result)
    assert result.content["study"]["columns"] == {
        "method": "activation",
        "value": "test_acc",
        "seed": "seed",
    }
    assert "Paired by seed: all methods have 8 seeds in common." in result.content["study"]["notes"]


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_and_decimal_commas_are_read(tmp_path, delimiter) -> None:
    rows = long_rows()
    if delimiter == ";":
        for row in rows:
            row["test_acc"] = str(row["test_acc"]).replace(".", ",")
    check(gw.compare_records(str(write_csv(tmp_path / "runs.txt", rows, delimiter))))


def test_a_column_per_method_and_a_column_per_seed(tmp_path) -> None:
    by_method = [
        {"seed": seed, **{method: runs[seed] for method, runs in values().items()}}
        for seed in SEEDS
    ]
    path = write_csv(tmp_path / "wide.csv", by_method)
    with pytest.raises(ArgumentError, match="higher or lower values are better"):
        gw.compare_records(path)
    check(gw.compare_records(path, mode="max"))
    check(gw.compare_records(path, metric="accuracy"))
    by_seed = [
        {"method": method, **{f"seed{seed}": value for seed, value in runs.items()}}
        for method, runs in values().items()
    ]
    check(gw.compare_records(write_csv(tmp_path / "seeds.csv", by_seed), mode="max"))


def test_a_row_per_metric_judges_one_metric(tmp_path) -> None:
    rows = []
    for row in long_rows():
        for metric, value in (("train_acc", 0.99), ("test_acc", row["test_acc"])):
            rows.append(
                {"unit": row["activation"], "seed": row["seed"], "metric": metric, "value": value}
            )
    result = gw.compare_records(rows)
    check(result)
    assert result.metric == "test_acc"
    assert any("'train_acc'" in note for note in result.content["study"]["notes"])
    with pytest.raises(ArgumentError, match="no such metric"):
        gw.compare_records(rows, metric="f1")


def test_a_log_counts_with_its_last_step() -> None:
    rows = []
    for row in long_rows():
        for epoch in (2, 0, 1):
            value = row["test_acc"] if epoch == 2 else 0.1
            rows.append({**row, "epoch": epoch, "test_acc": value})
    result = gw.compare_records(rows)
    check(result)
    assert (
        "Only the last epoch of each run counts: 48 rows left out."
        in (result.content["study"]["notes"])
    )


def test_data_frames_and_columns(tmp_path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(long_rows())
    check(gw.compare_records(frame))
    check(gw.compare_records(frame.set_index(["activation", "seed"])))
    check(gw.compare_records(frame.to_dict("list")))
    frame.to_parquet(tmp_path / "runs.parquet")
    check(gw.compare_records(tmp_path / "runs.parquet"))
    pyarrow = pytest.importorskip("pyarrow")
    check(gw.compare_records(pyarrow.Table.from_pandas(frame)))


class LikePolars:
    """A data frame with the interface of polars."""

    def __init__(self, columns: dict) -> None:
        self.data = columns

    def to_dict(self, *, as_series: bool = True) -> dict:
        return {
            name: np.array(column) if as_series else column for name, column in self.data.items()
        }


def test_a_polars_frame() -> None:
    rows = long_rows()
    check(gw.compare_records(LikePolars({name: [row[name] for row in rows] for name in rows[0]})))


def test_exports_of_wandb(tmp_path) -> None:
    table = [
        {
            "Name": f"sunny-{place}",
            "State": "finished",
            "Runtime": 100 + place,
            "activation": row["activation"],
            "seed": row["seed"],
            "test/acc": row["test_acc"],
            "train/loss": 0.5,
        }
        for place, row in enumerate(long_rows())
    ]
    check(gw.compare_records(write_csv(tmp_path / "wandb.csv", table)))
    chart = []
    for step in range(3):
        row: dict[str, object] = {"Step": step}
        for method, runs in values().items():
            for seed, value in runs.items():
                name = f"{method}-seed{seed} - test_acc"
                row[name] = value if step == 2 else 0.1
                row[f"{name}__MIN"] = row[f"{name}__MAX"] = row[name]
        chart.append(row)
    result = gw.compare_records(write_csv(tmp_path / "chart.csv", chart))
    check(result)
    assert any("'relu-seed0' is method 'relu'" in note for note in result.content["study"]["notes"])


def test_exports_of_tensorboard(tmp_path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for row in long_rows():
        folder = tmp_path / "runs" / f"{row['activation']}" / f"seed_{row['seed']}"
        with tensorboard.SummaryWriter(folder) as writer:
            for step in range(3):
                value = row["test_acc"] if step == 2 else 0.1
                writer.add_scalar("test/accuracy", value, step)
                writer.add_scalar("train/loss", 1.0, step)
    result = gw.compare_records(tmp_path / "runs")
    assert result.metric == "test_accuracy"
    got = {row.name: row.verdict for row in result.compare().differences}
    assert got == {"gelu": "better", "tanh": "worse"}
    # float32 in the files: the values agree to seven digits.
    assert result.compare()["gelu"].difference == pytest.approx(
        compare_runs(values(), "relu")["gelu"].difference, abs=1e-7
    )
    paths = []
    for row in long_rows():
        name = f"run-{row['activation']}_{row['seed']}-tag-test_accuracy.csv"
        steps = [
            {"Wall time": 1.0, "Step": step, "Value": row["test_acc"] if step == 2 else 0.1}
            for step in range(3)
        ]
        paths.append(write_csv(tmp_path / name, steps))
    check(gw.compare_records(paths))


def test_a_cut_off_event_file_is_read_up_to_the_cut(tmp_path) -> None:
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for row in long_rows():
        folder = tmp_path / "runs" / f"{row['activation']}_s{row['seed']}"
        with tensorboard.SummaryWriter(folder) as writer:
            writer.add_scalar("acc", row["test_acc"], 0)
    path = next((tmp_path / "runs" / "relu_s0").iterdir())
    path.write_bytes(path.read_bytes() + b"\x20\0\0\0\0\0\0\0cut")
    assert len(gw.compare_records(tmp_path / "runs").records) == 24


@pytest.mark.thorough
def test_exports_of_mlflow(tmp_path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = tmp_path / "mlruns"
    client = mlflow.MlflowClient(tracking_uri=store.as_uri())
    experiment = client.create_experiment("units")
    for row in long_rows():
        run = client.create_run(experiment, run_name=f"{row['activation']}-{row['seed']}")
        client.log_param(run.info.run_id, "activation", row["activation"])
        client.log_param(run.info.run_id, "seed", row["seed"])
        client.log_metric(run.info.run_id, "test_acc", 0.1, step=0)
        client.log_metric(run.info.run_id, "test_acc", row["test_acc"], step=1)
    check(gw.compare_records(store))
    check(gw.compare_records(store / experiment))
    table = [
        {
            "run_id": f"r{place}",
            "status": "FINISHED",
            "metrics.test_acc": row["test_acc"],
            "params.activation": row["activation"],
            "params.seed": row["seed"],
        }
        for place, row in enumerate(long_rows())
    ]
    check(gw.compare_records(write_csv(tmp_path / "runs.csv", table)))


def test_a_data_base_of_mlflow(tmp_path) -> None:
    """The columns that are read, as MLflow 3 creates them."""
    path = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE runs (run_uuid, name, status, lifecycle_stage)")
        base.execute("CREATE TABLE params (key, value, run_uuid)")
        base.execute("CREATE TABLE latest_metrics (key, value FLOAT, step, is_nan, run_uuid)")
        for place, row in enumerate(long_rows()):
            run = f"r{place}"
            base.execute("INSERT INTO runs VALUES (?, 'x', 'FINISHED', 'active')", [run])
            base.execute("INSERT INTO params VALUES ('unit', ?, ?)", [row["activation"], run])
            base.execute("INSERT INTO params VALUES ('seed', ?, ?)", [str(row["seed"]), run])
            base.execute(
                "INSERT INTO latest_metrics VALUES ('acc', ?, 0, 0, ?)", [row["test_acc"], run]
            )
        base.execute("INSERT INTO runs VALUES ('gone', 'x', 'FINISHED', 'deleted')")
    check(gw.compare_records(path))
    check(gw.compare_records(tmp_path))
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("UPDATE latest_metrics SET is_nan = 1 WHERE run_uuid = 'r9'")
        base.execute("UPDATE latest_metrics SET value = 1.797e308 WHERE run_uuid = 'r10'")
    assert gw.compare_records(path).compare()["gelu"].diverged == 2
    (tmp_path / "other.db").write_bytes(b"SQLite format 3 and no more")
    with pytest.raises(FileError, match="not a data base of MLflow"):
        gw.compare_records(tmp_path / "other.db")


def test_tasks_are_blocks_and_ranks_need_ten_of_them() -> None:
    rows = []
    for task in range(10):
        rows += long_rows({"dataset": f"set {task}"})
    result = gw.compare_records(rows)
    assert len(result.blocks) == 10 and result.ranking().ranks["gelu"] == 1
    assert gw.compare_records([row for row in rows if row["dataset"] != "set 3"]).ranking() is None
    result.compare(data="set 4")


def test_one_run_per_task_pairs_the_tasks() -> None:
    random = np.random.default_rng(1)
    rows = []
    for task in range(12):
        level = random.normal(0, 10)
        for method, gain in METHODS.items():
            score = float(level + 100 * gain + random.normal(0, 0.3))
            rows.append({"method": method, "task": f"t{task}", "reward": score})
    result = gw.compare_records(rows, mode="max")
    assert result.compare()["gelu"].n == 12 and result.compare()["gelu"].verdict == "better"
    assert any("tasks are the pairs" in note for note in result.content["study"]["notes"])


def test_runs_without_seeds_or_with_repeated_ones_are_not_paired() -> None:
    no_seed = [{"m": row["activation"], "acc": row["test_acc"]} for row in long_rows()]
    result = gw.compare_records(no_seed, method="m")
    check(result, method="Welch's t")
    assert any("no column has seeds" in note for note in result.content["study"]["notes"])
    repeated = [{**row, "seed": 1} for row in long_rows()]
    result = gw.compare_records(repeated)
    check(result, method="Welch's t")
    assert any("several runs with seed 1" in note for note in result.content["study"]["notes"])
    check(gw.compare_records(long_rows(), paired=False), method="Welch's t")
    # The order of rows never pairs.
    by_row = [{method: runs[seed] for method, runs in values().items()} for seed in SEEDS]
    check(gw.compare_records(by_row, mode="max"), method="Welch's t")
    other = [{**row, "seed": f"{row['activation']} {row['seed']}"} for row in long_rows()]
    result = gw.compare_records(other)
    check(result, method="Welch's t")
    assert any("No two methods share a seed" in note for note in result.content["study"]["notes"])


def test_diverged_and_missing_runs_are_told_apart(tmp_path) -> None:
    rows = long_rows()
    rows[8]["test_acc"] = "nan"
    rows[9]["test_acc"] = "inf"
    rows[17]["test_acc"] = ""
    result = gw.compare_records(write_csv(tmp_path / "runs.csv", rows))
    comparison = result.compare()
    assert comparison["gelu"].diverged == 2 and comparison["tanh"].n == 7
    notes = result.content["study"]["notes"]
    assert "Diverged runs (nan or inf) are results: 2 of gelu." in notes
    assert any(note.startswith("1 row without a value left out.") for note in notes)


def test_values_are_as_fine_as_their_digits() -> None:
    """Three equal differences of one last digit show nothing."""
    rows = [
        {"method": method, "seed": seed, "acc": value}
        for seed in range(3)
        for method, value in (("relu", "0.91"), ("gelu", "0.92"))
    ]
    result = gw.compare_records(rows)
    assert result.compare()["gelu"].verdict == "undecided"
    assert result.compare()["gelu"].interval == pytest.approx(
        (0.01 - 0.0248, 0.01 + 0.0248), abs=1e-4
    )
    assert gw.compare_records(rows, examples=10_000).compare()["gelu"].verdict == "better"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", {}, "empty"),
        ("method,seed,acc\n", {}, "no rows"),
        ("method,seed,acc\nrelu,0,0.9\n", {}, "one method only"),
        ("method,seed,acc\nrelu,0,1\ngelu,0,fast\n", {}, "row 3, column 'acc': not a number"),
        (
            "method,seed,acc\nrelu,0,fast\ngelu,0,1\n",
            {"value": "acc"},
            "row 2, column 'acc': not a number",
        ),
        ("method,seed,acc\nrelu,0,1\n,0,1\n", {}, "row 3: the method is empty"),
        ("method,seed,acc\nrelu,0,1,5\n", {}, "row 2 has 4 cells"),
        ("method,acc,acc\nrelu,0,1\n", {}, "two columns with one name"),
        ("a,b\n1,x\n2,y\n", {}, "names the method|one column|higher or lower"),
        ("method,seed,acc\nrelu,0,1\ngelu,0,2\n", {"baseline": "silu"}, "baseline"),
        ("method,seed,acc\nrelu,0,1\ngelu,0,2\n", {"value": "top"}, "no such column"),
        ("method,seed,acc\nrelu,0,1\ngelu,0,2\n", {"mode": "up"}, "mode"),
        ("method,seed,acc\nrelu,0,1\ngelu,0,2\n", {"margin": -1}, "margin"),
        ("method,seed,a,b\nrelu,0,1,3\ngelu,0,2,4\n", {}, "which column"),
    ],
)
def test_a_wrong_table_gets_one_clear_line(tmp_path, content, options, words) -> None:
    path = tmp_path / "runs.csv"
    path.write_text(content)
    with pytest.raises((ArgumentError, FileError), match=words) as problem:
        gw.compare_records(path, **options)
    assert "\n" not in str(problem.value)


def test_what_is_no_file_is_said(tmp_path) -> None:
    (tmp_path / "bytes.csv").write_bytes(bytes(range(256)))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    for path in ("missing.csv", "bytes.csv", "bad.parquet", "."):
        with pytest.raises((ArgumentError, FileError)):
            gw.compare_records(tmp_path / path)
    for wrong in (None, 3, [], {}, {"a": 3}, {"a": [1], "b": [1, 2]}, object()):
        with pytest.raises(ArgumentError):
            gw.compare_records(wrong)


@pytest.fixture
def run(monkeypatch):
    """Call the command in this process."""
    from typer.testing import CliRunner

    from gatewise.cli import app

    monkeypatch.setenv("COLUMNS", "120")
    return lambda *arguments: CliRunner().invoke(app, ["stats", *map(str, arguments)])


def test_the_command_writes_page_csv_and_json(tmp_path, run) -> None:
    path = write_csv(tmp_path / "runs.csv", long_rows())
    done = run(path, "--out", tmp_path / "page.html", "--csv", tmp_path / "out.csv", "--json")
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["blocks"][0]["comparison"]["differences"][0]["verdict"] == "better"
    page = (tmp_path / "page.html").read_text()
    assert "method = activation" in page and "gelu" in page
    # Nothing is said about what a table does not have.
    assert "not known: the runs were made elsewhere" in page
    assert "initial values of shared weights" not in page and "FLOPs" not in page
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    want = compare_runs(values(), "relu", resolution=1e-4)
    for row in rows[1:]:
        difference = want[row["method"]]
        assert (float(row["low"]), float(row["high"])) == difference.interval
        assert row["verdict"] == difference.verdict
    assert rows[0]["verdict"] == "baseline"
    assert math.isclose(float(rows[0]["mean"]), want.baseline_mean)


def test_the_command_prints_how_the_table_was_read(tmp_path, run) -> None:
    path = write_csv(tmp_path / "runs.csv", long_rows())
    done = run(path, "--margin", "0.02")
    assert "columns  method = activation, value = test_acc, seed = seed" in done.stdout
    assert "baseline relu; higher test acc is better" in done.stdout
    bad = run(tmp_path / "none.csv")
    assert bad.exit_code == 2 and "no such file" in bad.stderr and not bad.stdout
    assert comparison_csv(gw.compare_records(long_rows())).count("\n") == 4
