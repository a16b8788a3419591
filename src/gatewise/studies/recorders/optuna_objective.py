"""A gatewise run as the objective of an Optuna study.

Note [A search with Optuna]. Optuna proposes values, gatewise trains. A trial becomes a run
configuration, the run is trained in a folder that is named by the digest of that configuration, and
the objective is a metric on held-out training examples; the test set is not evaluated. The value of
every evaluated epoch is reported, so that Optuna's pruners can end a run early. If the search is
killed, the next one with the same storage and folder resumes: a configuration that was trained
before is not trained again, and an unfinished run continues from its checkpoint.
"""

import importlib
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gatewise.checks import check_choice, check_count
from gatewise.errors import ArgumentError, HeldError, MissingExtraError, install_extra
from gatewise.files import make_folder
from gatewise.train import (
    Pace,
    Result,
    RunConfig,
    StopSignal,
    Watcher,
    metric_mode,
    records,
    run_config,
    train,
)

KEY = 16  # hex digits of a digest that name a folder
HELD = ("held_accuracy", "held_loss")  # never on the test set
LOOK_AGAIN = 0.2  # seconds until the next look whether another process has ended the same run

Configure = Callable[[Any], RunConfig | Mapping[str, Any]]


class OptunaObjective:
    """The objective of an Optuna study; see Note [A search with Optuna].

    Args:
        configure: takes an Optuna trial and returns a run configuration, or the arguments of
            :func:`gatewise.train.run_config`. It calls ``trial.suggest_float`` and the like.
        out: a folder for the runs of this search.
        metric: on the held-out examples: ``"held_accuracy"`` or ``"held_loss"``.
        folds: one of so many parts of the training set is held out, unless the configuration says
            which examples are.
        device: where to train.
        data_folder: where data sets are, if not in GATEWISE_DATA.
        pace: how often checkpoints are written.
    """

    def __init__(
        self,
        configure: Configure,
        out: str | Path,
        *,
        metric: str = "held_accuracy",
        folds: int = 5,
        device: str = "cpu",
        data_folder: str | None = None,
        pace: Pace | None = None,
    ) -> None:
        if not callable(configure):
            raise ArgumentError(
                "configure: a function of a trial is needed", got=type(configure).__name__
            )
        self.metric = check_choice("OptunaObjective", "metric", metric, HELD)
        self.folds = check_count("OptunaObjective", "folds", folds, least=2, most=1000)
        self.mode = metric_mode(metric)
        self.configure = configure
        self.out = Path(out)
        self.device = device
        self.data_folder = data_folder
        self.pace = pace or Pace()

    @property
    def direction(self) -> str:
        """``"maximize"`` or ``"minimize"``: what ``optuna.create_study`` needs to know."""
        return "maximize" if self.mode == "max" else "minimize"

    def __call__(self, trial: Any) -> float:
        """Train the run of a trial and return its metric.

        Raises:
            optuna.TrialPruned: if the pruner ends the run, or the run diverges.
            KeyboardInterrupt: if Ctrl-C or the termination signal stops it; its state is saved.
        """
        optuna = _import_optuna()
        config = self._config(trial)
        folder = self.out / config.digest[:KEY]
        trial.set_user_attr("folder", str(folder))
        pruning = _Pruning(trial, self.metric)
        result = self._train(config, folder, pruning)
        if pruning.pruned:
            raise optuna.TrialPruned
        if result is None:
            raise KeyboardInterrupt("stopped and saved; the same search resumes")
        value = (result.metrics or {}).get(self.metric)
        if result.status == "diverged" or value is None or not math.isfinite(value):
            trial.set_user_attr("diverged", result.reason or f"{self.metric} is not finite")
            raise optuna.TrialPruned
        return float(value)

    def _config(self, trial: Any) -> RunConfig:
        """Return the run of a trial, with examples held out."""
        choice = self.configure(trial)
        if isinstance(choice, RunConfig):
            table = choice.model_dump(exclude_unset=True)
        elif isinstance(choice, Mapping):
            table = dict(choice)
        else:
            raise ArgumentError(
                "configure: a run configuration or a mapping is needed", got=type(choice).__name__
            )
        if not table.get("hold_out"):
            table["hold_out"] = {"fold": 1, "folds": self.folds, "in_place_of_test": True}
        return run_config(**table)

    def _train(self, config: RunConfig, folder: Path, pruning: "_Pruning") -> Result | None:
        """Train or resume; if another process trains the same configuration, wait for it."""
        make_folder(self.out)
        while True:
            pruning.replay(folder)
            if pruning.pruned:
                return None
            try:
                return train(
                    config,
                    folder,
                    data_folder=self.data_folder,
                    device=self.device,
                    pace=self.pace,
                    watchers=[pruning],
                    stop=pruning.stop,
                )
            except HeldError:
                if pruning.stop.asked:
                    return None
                time.sleep(LOOK_AGAIN)


class _Pruning(Watcher):
    """Reports the metric of every epoch to a trial, and stops the run if it is to be pruned."""

    def __init__(self, trial: Any, metric: str) -> None:
        self.trial = trial
        self.metric = metric
        self.stop = StopSignal()
        self.pruned = False
        self.reported: set[int] = set()

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Report the value of an epoch; one that was not evaluated has none."""
        value = record.get(self.metric)
        epoch = record["epoch"]
        if value is None or self.pruned or epoch in self.reported:
            return
        self.reported.add(epoch)
        self.trial.report(float(value), epoch)
        if self.trial.should_prune():
            self.pruned = True
            self.stop.asked = True

    def replay(self, folder: Path) -> None:
        """Report the epochs that an earlier process trained."""
        if (folder / "metrics.jsonl").is_file():
            for record in records(folder):
                self.epoch(record)


def _import_optuna() -> Any:
    """Import Optuna, which is an extra."""
    try:
        return importlib.import_module("optuna")
    except ImportError as problem:
        raise MissingExtraError("optuna is not installed", fix=install_extra("optuna")) from problem
