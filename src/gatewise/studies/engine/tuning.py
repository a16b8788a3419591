"""The learning rate of every unit on every backbone, chosen with the same small budget on held-out training examples.

Note [Never on the test set]. A tuning run holds out a share of the training set and is judged by the loss there alone.
Its cells are kept apart from those of the study, below ``tuning/``, and run before them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.engine.cells import Cell, Group, cells_of
from gatewise.studies.engine.config import Tune
from gatewise.train import RunConfig, run_config


@dataclass(frozen=True)
class Trial:
    """The runs of one group with one learning rate."""

    group: Group
    lr: float
    cells: tuple[Cell, ...]


def trials(groups: Sequence[Group], tune: Tune, examples: Mapping[str, int]) -> list[Trial]:
    """All that is to be run.

    ``examples`` is how large the training set of each data set is, by its label.
    """
    found = []
    for group in groups:
        held = round(examples[group.place.data] * tune.share)
        for lr in tune.lr:
            config = _trial_config(group.config, lr, tune.epochs, held)
            cells = cells_of([replace(group, config=config)], range(tune.seeds))
            found.append(Trial(group, lr, tuple(cells)))
    return found


def choose(
    found: Sequence[Trial], records: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Group], list[dict[str, Any]]]:
    """The groups with their chosen rates, and an account of what each rate came to."""
    scores: dict[Any, dict[float, float | None]] = {}
    groups = {trial.group.place: trial.group for trial in found}
    for trial in found:
        losses = [_held_loss(records[cell.key]) for cell in trial.cells]
        known = [loss for loss in losses if loss is not None]
        scores.setdefault(trial.group.place, {})[trial.lr] = (
            sum(known) / len(known) if len(known) == len(losses) else None
        )
    made, account = [], []
    for place, by_rate in scores.items():
        best = _lowest(by_rate, place.unit)
        made.append(replace(groups[place], config=_with_rate(groups[place].config, best)))
        tried = [{"lr": lr, "held_loss": loss} for lr, loss in by_rate.items()]
        account.append(
            {
                **vars(place),
                "lr": best,
                "tried": tried,
                "at_the_edge": best in (min(by_rate), max(by_rate)),
            }
        )
    return made, account


def _lowest(by_rate: Mapping[float, float | None], unit: str) -> float:
    known = {lr: loss for lr, loss in by_rate.items() if loss is not None}
    if not known:
        raise ArgumentError(
            f"tune: {unit} diverges or fails with every rate",
            got=sorted(by_rate),
            fix="smaller rates",
        )
    return min(known, key=lambda lr: known[lr])


def _held_loss(record: Mapping[str, Any]) -> float | None:
    return record["metrics"]["held_loss"] if record["status"] == "finished" else None


def _trial_config(config: RunConfig, lr: float, epochs: int, held: int) -> RunConfig:
    table = _table(config, lr)
    if epochs:
        table["recipe"]["epochs"] = epochs
    last = table["recipe"].get("epochs", config.recipe.epochs) + config.recipe.schedule.cooldown
    return run_config(**table | {"hold_out": {"examples": held}, "evaluate_every": last})


def _with_rate(config: RunConfig, lr: float) -> RunConfig:
    return run_config(**_table(config, lr))


def _table(config: RunConfig, lr: float) -> dict[str, Any]:
    table = config.model_dump(exclude_unset=True)
    table.setdefault("recipe", {}).setdefault("optimiser", {})["lr"] = lr
    return table
