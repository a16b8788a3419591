"""Runs made elsewhere: tables of every layout, exports of other tools, and what is said of them."""

import csv
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

import gatewise as gw
from gatewise.errors import ArgumentError, FileError, MissingExtraError
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


def check(result, *, test: str = "paired t") -> None:
    """The comparison is that of the plain values, however they were stored."""
    assert (result.baseline, result.header.metric.higher_is_better) == ("relu", True)
    rows = {row.unit: row for row in result.rows()}
    if test == "paired t":
        want = compare_runs(values(), "relu", resolution=1e-4)
        for row in want.differences:
            assert (rows[row.name].low, rows[row.name].high) == row.interval
            assert rows[row.name].p == row.p_corrected
    verdicts = {name: row.verdict for name, row in rows.items()}
    assert verdicts == {"relu": "baseline", "gelu": "better", "tanh": "worse"}
    assert {rows[name].test for name in ("gelu", "tanh")} == {test}


def test_a_long_csv_is_read_and_its_columns_are_named(tmp_path) -> None:
    result = gw.compare_records(write_csv(tmp_path / "runs.csv", long_rows()))
    check(result)
    assert result.header.settings["columns"] == {
        "method": "activation",
        "value": "test_acc",
        "seed": "seed",
    }
    assert "Paired by seed: all methods have 8 seeds in common." in result.header.notes


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_and_decimal_commas_are_read(tmp_path, delimiter) -> None:
    rows = long_rows()
    if delimiter == ";":
        for row in rows:
            row["test_acc"] = str(row["test_acc"]).replace(".", ",")
    check(gw.compare_records(str(write_csv(tmp_path / "runs.txt", rows, delimiter))))


def test_a_column_per_method(tmp_path) -> None:
    by_method = [
        {"seed": seed, **{method: runs[seed] for method, runs in values().items()}}
        for seed in SEEDS
    ]
    path = write_csv(tmp_path / "wide.csv", by_method)
    with pytest.raises(ArgumentError, match="which column"):
        gw.compare_records(path)
    columns = list(METHODS)
    with pytest.raises(ArgumentError, match="higher or lower values are better"):
        gw.compare_records(path, value=columns)
    check(gw.compare_records(path, value=columns, mode="max"))
    check(gw.compare_records(path, value=columns, metric="accuracy"))


def test_a_row_per_metric_judges_one_metric(tmp_path) -> None:
    rows = []
    for row in long_rows():
        for metric, value in (("train_acc", 0.99), ("test_acc", row["test_acc"])):
            rows.append(
                {"unit": row["activation"], "seed": row["seed"], "metric": metric, "value": value}
            )
    result = gw.compare_records(rows)
    check(result)
    assert result.header.metric.name == "test_acc"
    assert any("'train_acc'" in note for note in result.header.notes)
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
    assert "Only the last epoch of each run counts: 48 rows left out." in result.header.notes


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
    assert result.header.metric.name == "test_accuracy"
    got = {row.unit: row.verdict for row in result.rows()[1:]}
    assert got == {"gelu": "better", "tanh": "worse"}
    # float32 in the files: the values agree to seven digits.
    assert result["gelu"].difference == pytest.approx(
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


@pytest.mark.slow
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


class LikeMlflow:
    """The client of MLflow, for the calls that are made."""

    def __init__(self, uri: str) -> None:
        if not uri.startswith("sqlite:////") or "other" in uri:
            raise RuntimeError("Detected out-of-date database schema")

    def search_experiments(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(experiment_id="7")]

    def search_runs(self, experiments: list[str], *, max_results: int) -> list[SimpleNamespace]:
        assert experiments == ["7"]
        runs = []
        for row in long_rows():
            params = {"unit": row["activation"], "seed": str(row["seed"])}
            data = SimpleNamespace(params=params, metrics={"acc": row["test_acc"]})
            runs.append(SimpleNamespace(info=SimpleNamespace(run_name="x"), data=data))
        return runs


def test_a_data_base_is_read_by_mlflow(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", SimpleNamespace(MlflowClient=LikeMlflow))
    for name in ("mlflow.db", "other.db"):
        (tmp_path / name).touch()
    check(gw.compare_records(tmp_path / "mlflow.db"))
    check(gw.compare_records(tmp_path))
    with pytest.raises(FileError, match="out-of-date database schema; fix: export them"):
        gw.compare_records(tmp_path / "other.db")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match="need mlflow"):
        gw.compare_records(tmp_path)


def test_tasks_are_compared_one_by_one() -> None:
    rows = []
    for task in range(10):
        rows += long_rows({"dataset": f"set {task}"})
    result = gw.compare_records(rows)
    assert list(result.answers) == [f"set {task}" for task in range(10)]
    assert result.answer("set 4")["gelu"].verdict == "better"
    with pytest.raises(ArgumentError, match="no such model"):
        result.answer()


def test_one_run_per_task_pairs_the_tasks() -> None:
    random = np.random.default_rng(1)
    rows = []
    for task in range(12):
        level = random.normal(0, 10)
        for method, gain in METHODS.items():
            score = float(level + 100 * gain + random.normal(0, 0.3))
            rows.append({"method": method, "task": f"t{task}", "reward": score})
    result = gw.compare_records(rows, mode="max")
    assert result["gelu"].runs == 12 and result["gelu"].verdict == "better"
    assert any("tasks are the pairs" in note for note in result.header.notes)


def test_runs_without_seeds_are_not_paired() -> None:
    no_seed = [{"m": row["activation"], "acc": row["test_acc"]} for row in long_rows()]
    result = gw.compare_records(no_seed, method="m")
    check(result, test="Welch's t")
    assert any("no column has seeds" in note for note in result.header.notes)
    check(gw.compare_records(long_rows(), paired=False), test="Welch's t")
    # The order of rows never pairs.
    by_row = [{method: runs[seed] for method, runs in values().items()} for seed in SEEDS]
    result = gw.compare_records(by_row, mode="max", value=list(METHODS))
    check(result, test="Welch's t")
    other = [{**row, "seed": f"{row['activation']} {row['seed']}"} for row in long_rows()]
    result = gw.compare_records(other)
    check(result, test="Welch's t")
    assert any("No seed is shared by all methods" in note for note in result.header.notes)


# ------------------------------------------------------------------- repeated rows, and other axes


def null_rows(random: np.random.Generator, column: str, repeats: int) -> list[dict[str, object]]:
    """Two equal methods, five seeds, and rows of one seed that share most of their noise."""
    rows: list[dict[str, object]] = []
    for method in ("relu", "gelu"):
        for seed in range(5):
            level = random.normal(0.9, 0.01)
            for place in range(repeats):
                value = float(level + random.normal(0, 0.001))
                rows.append({"method": method, "seed": seed, column: place, "acc": value})
    return rows


@pytest.mark.parametrize("repeats", [2, 10])
def test_repeated_rows_of_a_seed_are_not_independent(repeats: int) -> None:
    random = np.random.default_rng(2)
    studies = 300
    false = 0
    for _ in range(studies):
        result = gw.compare_records(null_rows(random, "fold", repeats))
        false += result["gelu"].is_decided
        assert result["gelu"].runs == 5
    # 5 % and the binomial error at 99.9 %; pooled rows gave 16 and 55 %.
    assert false <= binom.ppf(0.999, studies, 0.05)
    assert any(f"Up to {repeats} rows" in note for note in result.header.notes)


def test_repeated_rows_of_one_seed_leave_one_run() -> None:
    result = gw.compare_records([{**row, "seed": 1} for row in long_rows()])
    assert result["gelu"].runs == 1 and result["gelu"].verdict == "undecided"


def test_a_column_that_varies_without_a_role_is_refused() -> None:
    rows = null_rows(np.random.default_rng(3), "width", 3)
    with pytest.raises(ArgumentError, match="'width' varies"):
        gw.compare_records(rows)
    assert gw.compare_records(rows, average="width")["gelu"].runs == 5
    assert list(gw.compare_records(rows, task="width").answers) == ["0", "1", "2"]
    by_model = [{**row, "model": f"net {row['width']}"} for row in rows]
    by_model = [{name: row[name] for name in row if name != "width"} for row in by_model]
    assert list(gw.compare_records(by_model).answers) == ["net 0", "net 1", "net 2"]


def rate_rows(
    rates: list[float], *, gains: dict[str, float], top: float = 0.0, seeds: int = 6
) -> list[dict[str, object]]:
    random = np.random.default_rng(4)
    rows: list[dict[str, object]] = []
    middle = (len(rates) - 1) / 2
    for seed in range(seeds):
        level = random.normal(0, 0.002)
        for method, gain in gains.items():
            for place, rate in enumerate(rates):
                fall = 0.01 * (place - middle - top) ** 2
                value = round(float(0.9 + level + gain - fall + random.normal(0, 0.003)), 4)
                rows.append({"method": method, "lr": rate, "seed": seed, "test_acc": value})
    return rows


GRID = [1e-3, 3e-3, 1e-2, 3e-2, 1e-1]
GAINS = {"relu": 0.0, "gelu": 0.03, "twin": 0.0}


def test_a_grid_of_learning_rates_is_judged_by_the_rule_of_studies(tmp_path) -> None:
    path = write_csv(tmp_path / "runs.csv", rate_rows(GRID, gains=GAINS))
    result = gw.compare_records(path)
    assert result.header.rates is not None and result.header.rates.count == 5
    assert {row.unit: row.verdict for row in result.rows()} == {
        "relu": "baseline",
        "gelu": "better",
        "twin": "undecided",
    }
    assert len(result["gelu"].curve) == 5 and result["gelu"].best_rate == pytest.approx(0.01)


def test_a_table_is_not_widened_and_a_missing_run_drops_a_rate() -> None:
    rows = rate_rows(GRID, gains=GAINS, top=2.0)
    result = gw.compare_records(rows)
    assert not result.is_preliminary
    assert result["gelu"].verdict == "not decided"
    assert result["gelu"].reason == "the baseline's best rate is outside the grid"
    rows = rate_rows(GRID, gains=GAINS)
    lost = [row for row in rows if (row["method"], row["lr"], row["seed"]) != ("twin", 1e-1, 3)]
    result = gw.compare_records(lost)
    assert result["gelu"].verdict == "better"
    assert [point.step for point in result["twin"].curve if point.judged] == [-4, -2, 0, 2]
    assert any("twin is judged without 0.1 (1 run missing)" in line for line in _dropped(result))


def _dropped(result) -> list[str]:
    return [line for answer in result.answers.values() for line in answer.dropped]


@pytest.mark.parametrize("rates", [[1e-3, 1e-2], [1e-3, 2e-3, 1e-2, 1e-1]])
def test_other_rates_are_judged_one_by_one(rates: list[float]) -> None:
    rows = rate_rows(rates, gains=GAINS)
    rows = [row for row in rows if row["method"] != "twin" or row["lr"] != rates[-1]]
    result = gw.compare_records(rows)
    shared = len(rates) - 1
    assert len(result.answers) == shared and result.header.family == 2 * shared
    first = result.answer("rate 1e-3")
    assert first.confidence == 1 - 0.05 / (2 * shared)
    assert any("are no grid" in note for note in result.header.notes)


def test_methods_with_a_rate_of_their_own_are_compared_at_it() -> None:
    own = {"relu": 1e-3, "gelu": 1e-2, "twin": 1e-2}
    rows = [row for row in rate_rows(GRID, gains=GAINS) if own[str(row["method"])] == row["lr"]]
    result = gw.compare_records(rows)
    assert result.header.rates is None and list(result.answers) == ["all runs"]
    assert any("learning rate of its own" in note for note in result.header.notes)


def test_rates_without_a_common_one_or_without_seeds_are_refused() -> None:
    rows = rate_rows([1e-3, 1e-2], gains={"relu": 0.0}) + rate_rows([2e-3, 2e-2], gains={"b": 0.0})
    with pytest.raises(ArgumentError, match="no learning rate in common"):
        gw.compare_records(rows)
    rows = [{**row, "seed": ""} for row in rate_rows(GRID, gains=GAINS)]
    with pytest.raises(ArgumentError, match="needs a seed"):
        gw.compare_records(rows)


def test_cells_that_a_spreadsheet_would_run_are_text() -> None:
    rows = [{**row, "activation": f"={row['activation']}"} for row in long_rows()]
    text = comparison_csv(gw.compare_records(rows, baseline="=relu"))
    cells = [cell for line in csv.reader(text.splitlines()[1:]) for cell in line]
    assert "'=gelu" in cells
    assert not any(cell.startswith(("=", "+", "@")) for cell in cells)


def test_diverged_and_missing_runs_are_told_apart(tmp_path) -> None:
    rows = long_rows()
    rows[8]["test_acc"] = "nan"
    rows[9]["test_acc"] = "inf"
    rows[17]["test_acc"] = ""
    result = gw.compare_records(write_csv(tmp_path / "runs.csv", rows))
    assert result["gelu"].diverged == 2 and result["tanh"].runs == 7
    notes = result.header.notes
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
    assert result["gelu"].verdict == "undecided"
    ends = (result["gelu"].low, result["gelu"].high)
    assert ends == pytest.approx((0.01 - 0.0248, 0.01 + 0.0248), abs=1e-4)
    assert gw.compare_records(rows, examples=10_000)["gelu"].verdict == "better"


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        ("", {}, "empty"),
        ('{"format": "gatewise study"}\n', {}, "no table of runs"),
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
        ("a,b\n1,x\n2,y\n", {}, "which column"),
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
    assert content["answers"]["all runs"]["rows"][1]["verdict"] == "better"
    page = (tmp_path / "page.html").read_text()
    assert "activation" in page and "gelu" in page
    # Nothing is said about what a table does not have.
    assert "learning rates" not in page and "FLOPs" not in page
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    want = compare_runs(values(), "relu", resolution=1e-4)
    for row in rows[1:]:
        difference = want[row["unit"]]
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
