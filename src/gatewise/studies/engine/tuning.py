"""Choose the learning rate of every unit on every backbone, with the same small budget.

Note [Never on the test set]. A tuning run holds out a share of the training set and is judged by
the loss on that share alone. Its cells are kept separately, below ``tuning/``, and run before those
of the study.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.stats import mean
from gatewise.studies.engine.cells import Cell, Group, Place, cells_of
from gatewise.studies.engine.config import Tune
from gatewise.train import RunConfig, run_config


@dataclass(frozen=True)
class Trial:
    """The runs of one group with one learning rate."""

    group: Group
    lr: float
    cells: tuple[Cell, ...]


def trials(groups: Sequence[Group], tune: Tune, examples: Mapping[str, int]) -> list[Trial]:
    """Return all tuning runs.

    Args:
        groups: of the study.
        tune: the rates to try, and the budget.
        examples: size of the training set of each data set, by its label.
    """
    plan = []
    for group in groups:
        held = round(examples[group.place.data] * tune.share)
        for lr in tune.lr:
            config = _trial_config(group.config, lr, tune.epochs, held)
            cells = cells_of([replace(group, config=config)], range(tune.seeds))
            plan.append(Trial(group, lr, tuple(cells)))
    return plan


def choose(
    plan: Sequence[Trial], records: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Group], list[dict[str, Any]]]:
    """Choose the rate with the lowest mean held-out loss for each group.

    Args:
        plan: the tuning runs.
        records: of their cells, by key.

    Returns:
        The groups with their rates, and for each group the loss of every rate tried.
    """
    groups: dict[Place, Group] = {}
    scores: dict[Place, dict[float, float | None]] = {}
    for trial in plan:
        place = trial.group.place
        groups[place] = trial.group
        scores.setdefault(place, {})[trial.lr] = _score(trial, records)
    tuned = []
    account = []
    for place, by_rate in scores.items():
        best = _lowest(by_rate, place.unit)
        config = run_config(**_table_with_rate(groups[place].config, best))
        tuned.append(replace(groups[place], config=config))
        row = {
            **vars(place),
            "lr": best,
            "tried": [{"lr": lr, "held_loss": loss} for lr, loss in by_rate.items()],
            "at_the_edge": best in (min(by_rate), max(by_rate)),
        }
        account.append(row)
    return tuned, account


def _score(trial: Trial, records: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the mean held-out loss; None if a run did not finish."""
    losses = []
    for cell in trial.cells:
        record = records[cell.key]
        if record["status"] != "finished" or record["metrics"]["held_loss"] is None:
            return None
        losses.append(record["metrics"]["held_loss"])
    return mean(losses)


def _lowest(by_rate: Mapping[float, float | None], unit: str) -> float:
    """Return the rate with the lowest loss."""
    known = {lr: loss for lr, loss in by_rate.items() if loss is not None}
    if not known:
        raise ArgumentError(
            f"tune: {unit} diverges or fails with every rate",
            got=sorted(by_rate),
            fix="smaller rates",
        )
    return min(known, key=lambda lr: known[lr])


def _trial_config(config: RunConfig, lr: float, epochs: int, held: int) -> RunConfig:
    """Return a run with held-out examples that is evaluated at its end."""
    table = _table_with_rate(config, lr)
    if epochs:
        table["recipe"]["epochs"] = epochs
    last = table["recipe"].get("epochs", config.recipe.epochs) + config.recipe.schedule.cooldown
    return run_config(**table | {"hold_out": {"examples": held}, "evaluate_every": last})


def _table_with_rate(config: RunConfig, lr: float) -> dict[str, Any]:
    """Return the table of a configuration with another learning rate."""
    table = config.model_dump(exclude_unset=True)
    table.setdefault("recipe", {}).setdefault("optimiser", {})["lr"] = lr
    return table
