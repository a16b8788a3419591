"""How learning rates are chosen and differences confirmed, against independent computations."""

import base64
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_studies import TABLE, small_study, without_times

from gatewise.data import load
from gatewise.errors import ArgumentError
from gatewise.files import read_record
from gatewise.studies.older import (
    Group,
    Place,
    RateSearch,
    RunOptions,
    Study,
    Tune,
    make_groups,
    read_study,
    run_study,
    status,
)
from gatewise.studies.older.cells import plan_study
from gatewise.studies.older.driver import plan_runs
from gatewise.train import StopSignal, run_config
from gatewise.train.loop import assemble, build_model

HERE = RunOptions(on="here")
UNITS = ("relu", "elu", "swish")


def groups(lr: float = 3e-3, units=UNITS, backbones=("net",)) -> list[Group]:
    made = []
    for backbone, unit in itertools.product(backbones, units):
        recipe = {"epochs": 2, "optimiser": {"name": "adamw", "lr": lr}}
        config = run_config(model="mlp", unit=unit, recipe=recipe, model_options={"widths": [4]})
        made.append(Group(Place(unit, backbone, "digits", "recipe"), config, None))
    return made


def record_of(cell, value, *, loss=1.0, status="finished") -> dict:
    metrics = {"held_accuracy": value, "held_loss": loss, "test_accuracy": value}
    labels = {name: item for name, item in cell.to_dict().items() if name != "config"}
    return {**labels, "status": status, "metrics": metrics if status == "finished" else None}


def search_to_end(search: RateSearch, score) -> list:
    """Run the search; ``score`` makes the record of a cell. Returns all cells that were run."""
    ran = []
    while cells := search.batch():
        assert not {cell.key for cell in cells} & {cell.key for cell in ran}
        search.take({cell.key: score(cell) for cell in cells})
        ran += cells
    return ran


def by_hand(score, unit: str, grid, rounds) -> float:
    """The best rate by halving, written as plainly as possible."""
    rates, used = sorted(grid), 0
    for keep, more in rounds:
        means = {
            lr: np.mean([score(unit, lr, 1000 + i) for i in range(used)]) for lr in rates if used
        }
        if used:
            rates = sorted(rates, key=lambda lr: -means[lr])[:keep]
        used += more
    return max(rates, key=lambda lr: np.mean([score(unit, lr, 1000 + i) for i in range(used)]))


@pytest.mark.parametrize("mode, rounds, runs", [
    ("quick", ((5, 1), (3, 2), (2, 2)), 15),
    ("full", ((5, 2), (3, 2), (2, 3)), 22),
])  # fmt: skip
@pytest.mark.parametrize("seed", range(5))
def test_the_rate_is_that_of_halving_by_hand(mode, rounds, runs, seed):
    chance = random.Random(seed)  # noqa: S311  not for secrets
    grid = [1e-3, 3.16e-3, 1e-2, 3.16e-2, 1e-1]
    noise = {}

    def score(unit, lr, tuning_seed):
        key = unit, lr, tuning_seed
        if key not in noise:
            noise[key] = 0.9 - 0.01 * (math.log10(lr) + 2) ** 2 + chance.gauss(0, 0.02)
        return noise[key]

    search = RateSearch(groups(), Tune(mode=mode, lr=grid), seeds=range(10))
    ran = search_to_end(search, lambda c: record_of(c, score(c.place.unit, c.lr, c.config.seed)))
    assert len(ran) == runs * len(UNITS) == sum(search.runs_of(g.place) for g in search.groups)
    for group in search.tuned_groups():
        assert group.config.recipe.optimiser.lr == by_hand(score, group.place.unit, grid, rounds)


def test_all_units_try_five_rates_half_a_decade_apart_around_the_recipes():
    search = RateSearch(groups(lr=1e-3), Tune(), seeds=range(10))
    assert search.blocks["net", "digits", "recipe"].grid == [1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2]
    first = search.batch()
    assert {(c.place.unit, c.lr, c.config.seed) for c in first} == set(
        itertools.product(UNITS, [1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2], [1000])
    )
    assert [c.place.unit for c in first[:3]] == list(UNITS)  # a run of each unit first


def test_tuning_runs_have_their_own_seeds_and_folds_and_never_see_the_test_set():
    search = RateSearch(groups(), Tune(mode="full"), seeds=[0, 1001, 1003])
    ran = search_to_end(search, lambda c: record_of(c, 0.5 + c.lr))
    seeds = sorted({cell.config.seed for cell in ran})
    assert seeds == [1000, 1002, 1004, 1005, 1006, 1007, 1008]
    for cell in ran:
        rule = cell.config.hold_out
        assert (rule.fold, rule.folds) == (seeds.index(cell.config.seed) % 5 + 1, 5)
        assert rule.in_place_of_test and cell.role == "tuning"


@pytest.mark.parametrize("best, side", [("high", -1), ("low", 0)])
def test_a_best_rate_at_an_edge_widens_the_grid_of_every_unit_twice_at_most(best, side):
    sign = 1 if best == "high" else -1

    def score(cell):
        wants_edge = cell.place.unit == "elu"
        distance = abs(math.log10(cell.lr) - math.log10(3e-3))
        return record_of(
            cell, 0.5 + 0.01 * (sign * math.log10(cell.lr) if wants_edge else -distance)
        )

    search = RateSearch(groups(backbones=("net", "other")), Tune(), seeds=range(10))
    ran = search_to_end(search, score)
    for block in search.blocks.values():
        assert block.widened == 2 and len(block.grid) == 7
        assert len({round(math.log10(b / a), 2) for a, b in itertools.pairwise(block.grid)}) == 1
    account = search.account()
    assert account["widened"] == 2 and account["mode"] == "quick" and len(account["grid"]) == 7
    for row in account["groups"]:
        assert len(row["tried"]) == 7 and row["at_the_edge"] == (row["unit"] == "elu")
        if row["unit"] == "elu":
            assert row["lr"] == search.blocks["net", "digits", "recipe"].grid[side]
    assert len(ran) < 2 * 3 * 7 * 5  # rates that lose early get no more seeds


def test_a_grid_of_the_user_is_not_widened():
    search = RateSearch(groups(), Tune(lr=[1e-2, 1e-1]), seeds=range(10))
    search_to_end(search, lambda c: record_of(c, c.lr))
    assert search.blocks["net", "digits", "recipe"].grid == [1e-2, 1e-1]
    assert {row["lr"] for row in search.account()["groups"]} == {1e-1}


def test_less_than_one_example_is_a_tie_which_the_loss_decides():
    """100 examples in 5 folds: 20 are held out, so that 0.05 is one example."""

    def choose(gap, runs=3):
        scores = {1e-3: (0.5, 0.9), 1e-2: (0.5 + gap, 1.0)}
        tune = Tune(lr=[1e-3, 1e-2], seeds=runs)
        search = RateSearch(groups(units=["relu"]), tune, seeds=[0], examples={"digits": 100})
        search_to_end(search, lambda c: record_of(c, scores[c.lr][0], loss=scores[c.lr][1]))
        return search.account()["groups"][0]["lr"]

    assert choose(0.049) == 1e-3 and choose(0.05) == 1e-2 and choose(-0.05) == 1e-3
    assert choose(0.049, runs=5) == 1e-3 and choose(0.05, runs=5) == 1e-2


def test_a_lower_loss_is_better_where_the_loss_is_the_metric():
    search = RateSearch(
        groups(), Tune(lr=[1e-3, 1e-2, 1e-1]), seeds=[0], metric="test_loss", higher_is_better=False
    )
    search_to_end(search, lambda c: record_of(c, 0.5, loss=c.lr))
    assert {row["lr"] for row in search.account()["groups"]} == {1e-3}


@pytest.mark.parametrize("status", ["diverged", "failed"])
def test_a_run_without_a_result_is_worse_than_any(status):
    def score(cell):
        lost = cell.place.unit == "elu" or (cell.lr > 1e-3 and cell.config.seed == 1001)
        return record_of(cell, cell.lr, status=status if lost else "finished")

    search = RateSearch(groups(), Tune(lr=[1e-3, 1e-2, 1e-1]), seeds=[0])
    search_to_end(search, score)
    rows = {row["unit"]: row for row in search.account()["groups"]}
    assert rows["relu"]["lr"] == 1e-3 and rows["elu"]["lr"] == 1e-3  # the smallest if none has one
    worst = next(tried for tried in rows["relu"]["tried"] if tried["lr"] == 1e-1)
    assert worst["mean"] is None and worst["scores"]["1001"] is None


# ---------------------------------------------------------------------------------- confirmation


def final_records(search, values) -> list[dict]:
    """Ten seeds of every unit at its chosen rate and others; ``values`` is the mean of each."""
    chance = np.random.default_rng(0)
    noise = chance.normal(0, 0.004, 10)
    records = []
    for group in search.tuned_groups():
        unit = group.place.unit
        for lr, value in values[unit].items():
            for seed in range(10):
                accuracy = value + noise[seed] + chance.normal(0, 0.001)
                record = {**vars(group.place), "seed": seed, "lr": lr, "status": "finished"}
                records.append(record | {"metrics": {"test_accuracy": accuracy}, "examples": 1000})
    return records


def confirmed(search, values):
    return [
        (place.unit, lr)
        for place, lr in search.confirmations(
            final_records(search, values), baseline="relu", metric="test_accuracy"
        )
    ]


@pytest.fixture
def searched():
    """All units have chosen 1e-2, the largest of their grid."""
    search = RateSearch(groups(), Tune(lr=[1e-3, 3.16e-3, 1e-2]), seeds=range(10))
    search_to_end(search, lambda c: record_of(c, c.lr))
    return search


def test_only_what_a_verdict_depends_on_is_run_at_the_neighbouring_rates(searched):
    same = {1e-2: 0.9}
    assert confirmed(searched, {"relu": same, "elu": same, "swish": same}) == []
    better = confirmed(searched, {"relu": same, "elu": {1e-2: 0.93}, "swish": same})
    assert better == [("relu", 3.16e-3), ("relu", 3.16e-2)]  # one of them beyond the grid
    worse = confirmed(searched, {"relu": same, "elu": {1e-2: 0.87}, "swish": same})
    assert worse == [("elu", 3.16e-3), ("elu", 3.16e-2)]
    done = {1e-2: 0.87, 3.16e-3: 0.87, 3.16e-2: 0.87}
    assert confirmed(searched, {"relu": same, "elu": done, "swish": same}) == []
    cells = searched.cells_at([(Place("elu", "net", "digits", "recipe"), 3.16e-2)], range(10))
    assert {(c.role, c.lr, c.config.hold_out) for c in cells} == {("neighbour", 3.16e-2, None)}
    assert [c.config.seed for c in cells] == list(range(10))


def test_the_full_mode_runs_the_neighbours_of_all_units():
    search = RateSearch(groups(), Tune(mode="full", lr=[1e-3, 1e-2, 1e-1]), seeds=range(10))
    search_to_end(search, lambda c: record_of(c, -abs(math.log10(c.lr) + 2)))
    assert confirmed(search, {unit: {1e-2: 0.9} for unit in UNITS}) == [
        (unit, lr) for unit in UNITS for lr in (1e-3, 1e-1)
    ]


def test_a_unit_that_only_diverged_or_failed_does_not_stop_the_others(searched):
    records = final_records(searched, {"relu": {1e-2: 0.9}, "elu": {1e-2: 0.93}, "swish": {}})
    for record in final_records(searched, {"relu": {}, "elu": {}, "swish": {1e-2: 0.5}}):
        records.append(record | {"status": "failed", "metrics": None})
    wanted = searched.confirmations(records, baseline="relu", metric="test_accuracy")
    assert [(place.unit, lr) for place, lr in wanted] == [("relu", 3.16e-3), ("relu", 3.16e-2)]


# --------------------------------------------------------------------------------- whole studies

TUNED = {
    "units": ["relu", "crelu"],
    "seeds": 2,
    "backbones": [TABLE["backbones"][1]],
    "tune": {"lr": [1e-3, 1e-2, 1e-1]},
}
FEWER = TUNED | {"tune": {"lr": [1e-3, 1e-2]}}
seen: list = []  # what the study of the fixture reported


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study") / "tuned"

    def watch(progress, event):
        seen.append((progress.planned, progress.estimate, event))

    return run_study(small_study(**TUNED), folder, HERE, watch=watch)


def test_a_tuned_study_is_what_its_records_say(tuned):
    folder = Path(tuned.folder)
    tuning = tuned.content["tuning"]
    assert tuning["mode"] == "quick" and tuning["grid"] == [1e-3, 1e-2, 1e-1]
    for row in tuning["groups"]:
        scores = {}
        for path in (folder / "tuning").glob("*/cell.json"):
            record = read_record(path)
            assert record["role"] == "tuning" and record["seed"] >= 1000
            assert not any("test" in name for name in record["metrics"])
            assert record["best"] is None and record["correct"] is None
            if record["unit"] == row["unit"]:
                values = scores.setdefault(record["lr"], {})
                values[str(record["seed"])] = record["metrics"]["held_accuracy"]
        assert {t["lr"]: t["scores"] for t in row["tried"]} == scores
        assert sorted(len(values) for values in scores.values()) == [3, 5, 5]
    chosen = {row["unit"]: row["lr"] for row in tuning["groups"]}
    final = [cell for cell in tuned.cells if cell["role"] == "final"]
    assert len(final) == 4 and all(cell["lr"] == chosen[cell["unit"]] for cell in final)
    assert all("hold_out" not in cell["config"] for cell in tuned.cells)
    for record in tuned.records:
        assert record["lr"] == record["metrics"]["lr"] or record["lr"] == chosen[record["unit"]]


def test_a_tuned_study_that_is_done_does_nothing_a_second_time(tuned):
    before = {path: path.stat().st_mtime_ns for path in Path(tuned.folder).rglob("*.json")}
    events = []
    again = run_study(
        small_study(**TUNED), tuned.folder, HERE, watch=lambda _, event: events.append(event)
    )
    assert set(events) == {None} and again.records == tuned.records
    assert {path: path.stat().st_mtime_ns for path in Path(tuned.folder).rglob("*.json")} == before


class StopAfter:
    def __init__(self, begun: int) -> None:
        self.begun, self.stop = begun, StopSignal()

    def __call__(self, progress, event) -> None:
        self.begun -= event is not None and event.kind == "started"
        self.stop.asked = self.stop.asked or self.begun <= 0


def always_confirm(monkeypatch) -> None:
    """Let both neighbours of the baseline be asked for, whatever the results are."""

    def needed(results, chosen, baseline, *, grid, **_):
        at = grid.index(chosen[baseline])
        return [(baseline, grid[at - 1]), (baseline, grid[at + 1])]

    monkeypatch.setattr("gatewise.studies.older.tuning.needs_confirmation", needed)


@pytest.mark.thorough
def test_a_study_stopped_in_any_stage_ends_in_the_same_records(tmp_path, monkeypatch):
    always_confirm(monkeypatch)
    study = small_study(**FEWER)
    whole = run_study(study, tmp_path / "whole", HERE)
    assert [c["role"] for c in whole.cells] == ["final"] * 4 + ["neighbour"] * 4
    stages = set()
    # Starts of cells until the next stop, in the first, second and last round of tuning, in the
    # final runs and in the confirmation.
    for begun in (3, 6, 10, 7, 5):
        watch = StopAfter(begun)

        def look(progress, event, watch=watch):
            stages.add(progress.stage)
            watch(progress, event)

        assert run_study(study, tmp_path / "parts", HERE, watch=look, stop=watch.stop) is None
    parts = run_study(study, tmp_path / "parts", HERE)
    assert stages == {"tuning", "cells", "confirmation"}
    assert without_times(parts.records) == without_times(whole.records)
    assert parts.content == whole.content
    assert status(tmp_path / "parts").finished == 8


@pytest.mark.thorough
def test_worker_processes_are_kept_from_stage_to_stage(tmp_path):
    workers = set()
    study = small_study(**FEWER | {"seeds": 1, "tune": {"lr": [1e-3, 1e-2], "seeds": 1}})
    found = run_study(
        study,
        tmp_path / "s",
        RunOptions(workers=2, threads=1),
        watch=lambda _, event: workers.add(event.worker) if event else None,
    )
    assert len(workers) == 2 and not any(Path(f"/proc/{worker}").exists() for worker in workers)
    assert len(found.records) == 2 and found.content["tuning"]["mode"] == "custom"


def test_the_runs_are_counted_first_and_their_time_is_estimated(tuned):
    assert {tuple(planned.to_dict().values()) for planned, _, _ in seen} == {
        (2 * (3 + 3 * 2 + 2 * 2), 4, 4)
    }
    first = next(place for place, (_, estimate, _) in enumerate(seen) if estimate)
    ended = [event.kind for _, _, event in seen[1 : first + 1]]
    assert ended.count("finished") == 2  # one of each unit
    estimate = seen[first][1]
    each = estimate.untuned / 4
    assert estimate.left == pytest.approx(each * (26 + 4 - 2))  # both units have as many runs left
    assert estimate.with_fewer_seeds == pytest.approx(each * (26 + 2))
    # Four runs of one unit, whichever takes longer; four runs without tuning are of both.
    assert 0 < estimate.confirmation < 2 * estimate.untuned and estimate.fewer_seeds == 1
    assert seen[-1][1].left == 0


def test_the_time_of_short_tuning_runs_is_not_taken_for_that_of_final_runs():
    tune = {"lr": [1e-3, 1e-2], "seeds": 1, "epochs": 1}
    study = small_study(**FEWER | {"recipe": TABLE["recipe"] | {"epochs": 4}, "tune": tune})
    search = RateSearch(plan_study(study).groups, study.table.tune, seeds=study.table.seeds)
    _, times = plan_runs(search, study, workers=2)
    for group in search.groups:
        for _ in range(2):
            times.count(group.place, tuning=True)
            times.measured(group.place, 10.0, tuning=True)
    estimate = times.estimate()
    assert estimate is not None and estimate.left == 2 * 2 * 40.0 / 2  # two final runs of two units
    assert estimate.untuned == estimate.left
    assert estimate.with_fewer_seeds == (2 * 2 * 10.0 + 2 * 40.0) / 2


def test_right_and_wrong_is_kept_for_each_test_example(tuned):
    data = load("digits", train=60, shift_test=1)
    for record in tuned.records[:3]:
        folder = Path(tuned.folder) / "cells" / record["key"]
        config = run_config(**next(c["config"] for c in tuned.cells if c["key"] == record["key"]))
        network = build_model(config, classes=10, shape=(1, 8, 8))
        network.load_state_dict(load_file(folder / "weights.safetensors"))
        mean = torch.tensor(data.mean).view(-1, 1, 1)
        std = torch.tensor(data.std).view(-1, 1, 1)
        with torch.no_grad():
            guess = network.eval()((data.test.images - mean) / std).argmax(1)
        bits = np.unpackbits(np.frombuffer(base64.b64decode(record["correct"]), dtype=np.uint8))
        right = bits[: record["examples"]].astype(bool)
        assert len(right) == len(data.test) and not bits[record["examples"] :].any()
        assert (
            np.mean(right != (guess == data.test.labels).numpy()) < 2e-3
        )  # batches differ in size
        assert right.mean() == pytest.approx(record["metrics"]["test_accuracy"], abs=1e-12)


def test_right_and_wrong_survives_a_stop_after_the_last_epoch(tmp_path):
    """The checkpoint after the last epoch is resumed by a process that has evaluated nothing."""
    from gatewise.train import Pace, train
    from gatewise.train.run import one_run

    config = run_config(
        **make_groups(small_study(**TUNED))[0].config.model_dump(exclude_unset=True)
    )
    data = load("digits", train=60, shift_test=1)
    whole = train(config, tmp_path / "whole", data=data)

    def dies(*_):
        raise OSError("the disc is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_run, "write_result", dies)
        with pytest.raises(OSError, match="disc"):
            train(config, tmp_path / "parts", data=data, pace=Pace(checkpoint_epochs=2))
    parts = train(config, tmp_path / "parts", data=data)
    assert parts.starts == 2 and parts.correct == whole.correct and parts.examples == 1737


def test_old_records_without_it_are_read(tuned, tmp_path):
    from shutil import copytree

    from gatewise.files import write_record

    copytree(tuned.folder, tmp_path / "old")
    for path in (tmp_path / "old" / "cells").glob("*/cell.json"):
        record = read_record(path)
        for name in ("correct", "examples", "lr", "role"):
            del record[name]
        write_record(path, record)
    assert len(read_study(tmp_path / "old").records) == len(tuned.records)
    again = run_study(small_study(**TUNED), tmp_path / "old", HERE)
    assert len(again.records) == len(tuned.records)


def test_held_out_examples_are_moved_as_the_test_examples_are():
    data = load("digits", train=60, shift_test=1)
    plain = load("digits", train=60)
    for fold in range(1, 6):
        rule = {"fold": fold, "folds": 5}
        before = assemble(run_config(model="mlp", hold_out=rule), data=data).objective.evaluated
        assert set(before) == {"test", "held"}
        rule["in_place_of_test"] = True
        moved = assemble(run_config(model="mlp", hold_out=rule), data=data).objective.evaluated
        still = assemble(run_config(model="mlp", hold_out=rule), data=plain).objective.evaluated
        assert set(moved) == set(still) == {"held"}
        assert torch.equal(still["held"].images, before["held"].images)
        inner = moved["held"].images
        shifts = itertools.product((-1, 0, 1), repeat=2)
        candidates = [
            torch.nn.functional.pad(still["held"].images, (1, 1, 1, 1))[
                ..., 1 + down : 9 + down, 1 + right : 9 + right
            ]
            for down, right in shifts
        ]
        same = torch.stack([(inner == c).flatten(1).all(1) for c in candidates])
        assert same.any(0).all() and (same.float().argmax(0) != 4).float().mean() > 0.5


def test_a_recipe_with_phases_is_not_tuned_and_says_why(tmp_path):
    phases = {"schedule": {"name": "phases", "phases": [{"epochs": 1, "lr": 0.01}]}, "epochs": 1}
    study = small_study(
        units=["relu", "elu"], seeds=1, tune="quick", recipe=phases, backbones=["mlp"]
    )
    found = run_study(study, tmp_path / "s", HERE)
    assert found.content["tuning"]["mode"] == "none"
    assert "phases" in found.content["tuning"]["why"] and len(found.records) == 2
    assert {record["lr"] for record in found.records} == {None}


def test_an_end_of_the_schedule_keeps_its_ratio_to_the_rate():
    recipe = {"schedule": {"name": "cosine", "end": 1e-3}, "optimiser": {"lr": 3e-3}}
    config = run_config(model="mlp", recipe=recipe)
    group = Group(Place("relu", "net", "digits", "recipe"), config, None)
    search = RateSearch([group], Tune(), seeds=[0])
    ends = {c.lr: c.config.recipe.schedule.end for c in search.batch()}
    assert all(end == pytest.approx(lr / 3) for lr, end in ends.items()) and len(ends) == 5


# ------------------------------------------------------------------------ what a study file says


@pytest.mark.parametrize("said, mode", [
    ("", "quick"), ('tune = "quick"', "quick"), ('tune = "full"', "full"), ("tune = false", "none"),
    ('tune = "none"', "none"), ("tune = true", "quick"), ("tune = {lr = [1e-3, 1e-2]}", "quick"),
    ("tune = {lr = [1e-3, 1e-2], seeds = 3}", "custom"),
])  # fmt: skip
def test_tune_has_short_forms(said, mode):
    study = Study.read(f'units = ["relu", "elu"]\nbackbones = ["mlp"]\n{said}')
    assert study.table.tune.name == mode and len(study.table.seeds) == 10


@pytest.mark.parametrize("said, error", [
    ('tune = "fast"', "tune.mode is not allowed"),
    ("tune = {lr = [1e-3, 1e-3]}", "0.001 appears twice"),
    ('tune = {mode = "none", lr = [1e-3, 1e-2]}', "nothing is tuned"),
    ("margin = 0.5", "0.005 for 0.5 points"),
    (
        'recipes = ["adam", "sgd"]\nbackbones = [{name = "mlp", recipe = {base = "study"}}]',
        "several recipes",
    ),
])  # fmt: skip
def test_what_is_wrong_about_it_is_said(said, error):
    backbones = "" if "backbones" in said else 'backbones = ["mlp"]\n'
    with pytest.raises(ArgumentError, match=error):
        Study.read(f'units = ["relu", "elu"]\n{backbones}{said}')


def test_a_backbone_may_have_a_recipe_of_its_own():
    study = Study.read("""
units = ["relu", "elu"]
recipe = { name = "short", epochs = 2, weight_decay = { value = 0.1 } }
backbones = [
    "small_cnn",
    { name = "long", model = "mlp", recipe = { base = "study", name = "long", epochs = 5 } },
    { name = "other", model = "mlp", recipe = "sgd" },
]
""")
    recipes = {g.place.backbone: (g.place.recipe, g.config.recipe) for g in make_groups(study)}
    assert [recipes[name][0] for name in ("small_cnn", "long", "other")] == ["short", "long", "sgd"]
    assert [recipes[name][1].epochs for name in ("small_cnn", "long")] == [2, 5]
    assert recipes["long"][1].weight_decay.value == 0.1
    assert recipes["other"][1].optimiser.name == "nesterov" and study.table.size == 60
    again = Study.of(study.plain)
    assert again.plain == study.plain


# ------------------------------------------------------------------------------ units left out


def test_a_unit_that_cannot_be_matched_is_left_out_with_its_reason(tmp_path):
    backbones = [
        {"name": "narrow", "model": "mlp", "options": {"widths": [2]}},
        TABLE["backbones"][1],
    ]
    changes = {"backbones": backbones, "match": "parameters", "match_within": 0.01, "seeds": 1}
    study = small_study(units=["relu", "crelu", "elu"], **changes)
    found = run_study(study, tmp_path / "s", HERE)
    left = found.content["left_out"]
    assert {(one["unit"], one["backbone"]) for one in left} >= {("crelu", "narrow")}
    assert all("come within 1.0%" in one["reason"] for one in left)
    assert len(found.records) == 6 - len(left) and found.compare("narrow")["elu"]
    with pytest.raises(
        ArgumentError, match="match: all units other than the baseline cannot be run"
    ):
        make_groups(small_study(units=["relu", "crelu"], **changes | {"backbones": backbones[:1]}))
