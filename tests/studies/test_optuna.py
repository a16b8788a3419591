"""A run as the objective of an Optuna study: held out, pruned, kept and resumed."""

import sys
from types import SimpleNamespace

import pytest

from gatewise.errors import ArgumentError, MissingExtraError
from gatewise.files import read_json
from gatewise.studies import OptunaObjective
from gatewise.studies.recorders import optuna_objective
from gatewise.train import StopSignal, train

RECIPE = {
    "epochs": 2,
    "batch": 20,
    "optimiser": {"name": "adamw", "lr": 3e-3},
    "augment": {"shift": 1},
}

optuna = pytest.importorskip("optuna")
optuna.logging.set_verbosity(optuna.logging.ERROR)


def configure(trial) -> dict:
    lr = trial.suggest_float("lr", 1e-4, 1e-1, log=True)
    recipe = RECIPE | {"epochs": 3, "optimiser": {"name": "adamw", "lr": lr}}
    return {
        "model": "mlp",
        "model_options": {"widths": [8]},
        "unit": trial.suggest_categorical("unit", ["relu", "crelu"]),
        "data": "digits",
        "data_options": {"train": 60},
        "recipe": recipe,
        "seed": 0,
    }


def search(objective, storage=None, pruner=None):
    return optuna.create_study(
        study_name="s",
        storage=storage or optuna.storages.InMemoryStorage(),
        direction=objective.direction,
        sampler=optuna.samplers.RandomSampler(seed=1),
        pruner=pruner or optuna.pruners.NopPruner(),
        load_if_exists=True,
    )


def test_the_objective_is_the_metric_on_held_out_examples(tmp_path):
    objective = OptunaObjective(configure, tmp_path / "runs")
    study = search(objective)
    study.optimize(objective, n_trials=3)
    assert study.direction == optuna.study.StudyDirection.MAXIMIZE
    for trial in study.trials:
        result = read_json(
            tmp_path / "runs" / trial.user_attrs["folder"].split("/")[-1] / "result.json"
        )
        assert trial.value == result["metrics"]["held_accuracy"]
        assert result["config"]["recipe"]["optimiser"]["lr"] == trial.params["lr"]
        assert result["config"]["hold_out"]["in_place_of_test"]
        assert "test_accuracy" not in result["metrics"]
        assert sorted(trial.intermediate_values) == [1, 2, 3]
        assert trial.intermediate_values[3] == trial.value
    assert study.best_value == max(trial.value for trial in study.trials)
    assert OptunaObjective(configure, tmp_path, metric="held_loss").direction == "minimize"


def test_the_same_values_are_not_trained_again(tmp_path, monkeypatch):
    objective = OptunaObjective(configure, tmp_path / "runs")
    fixed = {"lr": 1e-2, "unit": "relu"}
    first = objective(optuna.trial.FixedTrial(fixed))
    # A second search reads the result; nothing is trained.
    monkeypatch.setattr("gatewise.train.run.one_run._run", lambda *_: pytest.fail("trained"))
    study = search(objective)
    study.enqueue_trial(fixed)
    study.optimize(objective, n_trials=1)
    assert study.best_value == first
    assert sorted(study.trials[0].intermediate_values) == [1, 2, 3]


class AfterTwo(optuna.pruners.BasePruner):
    """Prunes every trial after its second epoch."""

    def prune(self, study, trial) -> bool:
        return trial.last_step >= 2


def test_a_pruned_run_ends_early_and_can_be_resumed(tmp_path):
    objective = OptunaObjective(configure, tmp_path / "runs")
    study = search(objective, pruner=AfterTwo())
    fixed = {"lr": 1e-2, "unit": "relu"}
    for _ in range(2):  # the second time it is pruned by what is on the disk
        study.enqueue_trial(fixed)
        study.optimize(objective, n_trials=1)
        assert study.trials[-1].state == optuna.trial.TrialState.PRUNED
        assert sorted(study.trials[-1].intermediate_values) == [1, 2]
    whole = OptunaObjective(configure, tmp_path / "whole")(optuna.trial.FixedTrial(fixed))
    assert objective(optuna.trial.FixedTrial(fixed)) == whole  # resumed, to the same bits
    folder = next((tmp_path / "runs").iterdir())
    assert read_json(folder / "result.json")["starts"] >= 2


def test_a_search_that_is_stopped_resumes_its_run(tmp_path, monkeypatch):
    def stopped(config, folder, *, stop: StopSignal, watchers, **options):
        class StopAfterOne(type(watchers[0]).__mro__[1]):
            def epoch(self, record) -> None:
                stop.asked = True

        return train(config, folder, stop=stop, watchers=[*watchers, StopAfterOne()], **options)

    objective = OptunaObjective(configure, tmp_path / "runs")
    fixed = {"lr": 1e-2, "unit": "crelu"}
    monkeypatch.setattr(optuna_objective, "train", stopped)
    with pytest.raises(KeyboardInterrupt, match="the same search resumes"):
        objective(optuna.trial.FixedTrial(fixed))
    monkeypatch.undo()
    whole = OptunaObjective(configure, tmp_path / "whole")(optuna.trial.FixedTrial(fixed))
    assert objective(optuna.trial.FixedTrial(fixed)) == whole


def test_a_run_that_diverges_is_pruned(tmp_path):
    def wild(trial) -> dict:
        table = configure(trial)
        table["recipe"] |= {"optimiser": {"name": "sgd", "lr": 900.0}, "diverged_above": 5.0}
        return table

    objective = OptunaObjective(wild, tmp_path / "runs")
    study = search(objective)
    study.optimize(objective, n_trials=1)
    assert study.trials[0].state == optuna.trial.TrialState.PRUNED
    assert "loss" in study.trials[0].user_attrs["diverged"]


def test_what_cannot_be_searched_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ArgumentError, match="metric is not allowed; got: test_accuracy"):
        OptunaObjective(configure, tmp_path, metric="test_accuracy")
    with pytest.raises(ArgumentError, match="configure: a function of a trial"):
        OptunaObjective({}, tmp_path)
    with pytest.raises(ArgumentError, match="folds is not allowed"):
        OptunaObjective(configure, tmp_path, folds=1)
    trial = SimpleNamespace(set_user_attr=lambda *_: None)
    with pytest.raises(ArgumentError, match="a run configuration or a mapping is needed; got: int"):
        OptunaObjective(lambda trial: 3, tmp_path)(trial)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*optuna"):
        OptunaObjective(configure, tmp_path)(trial)
