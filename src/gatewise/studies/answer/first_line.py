"""The first line of an answer: how the learning rates of the units were chosen."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gatewise.studies.answer.lines import Line, Part
from gatewise.words import joined, plural, rate

if TYPE_CHECKING:
    from gatewise.studies.older import StudyResult

OTHER_RATES = "At other rates the order can differ."
FOREIGN = ("recorder", "table")  # origins of runs that gatewise did not start
NOT_KNOWN = (
    "Not known whether the learning rates were tuned: these runs were made elsewhere. "
    "If every unit had the same rate, the order can differ at other rates."
)


def headline(result: "StudyResult") -> str:
    """Return how learning rates were chosen for the units, or that they were not.

    Args:
        result: Of the study.
    """
    return _tuned(result) if result.tuned else _not_tuned(result)


def headline_line(result: "StudyResult") -> Line:
    """Return the headline as a line. That nothing was tuned is a warning as a whole."""
    words = headline(result)
    if not result.tuned:
        return (Part(words, "warning"),)
    name, colon, rest = words.partition(": ")
    return Part(f"{name}{colon}", "name"), Part(rest)


def _not_tuned(result: "StudyResult") -> str:
    """Return that all units had one rate, and why."""
    if result.content.get("origin") in FOREIGN:
        return NOT_KNOWN
    why = str(result.tuning.get("why") or "").strip().rstrip(".")
    because = f" ({why})" if why else ""
    rates = sorted({run.lr for run in result.runs if run.lr is not None})
    if not rates:
        return f"Not tuned{because}: no learning rate was chosen for any unit. {OTHER_RATES}"
    if len(rates) == 1:
        words = f"every unit was trained with learning rate {rate(rates[0])}"
    elif _one_rate_per_block(result):
        words = (
            "on each network, every unit was trained with the same learning rate "
            f"({joined([rate(value) for value in rates], most=5)})"
        )
    else:
        words = (
            "the units were trained with the learning rates that were given "
            f"({joined([rate(value) for value in rates], most=5)})"
        )
    return f"Not tuned{because}: {words}. {OTHER_RATES}"


def _one_rate_per_block(result: "StudyResult") -> bool:
    """Whether all units of a block have the same learning rate."""
    return all(len(set(result.chosen_rates(block).values())) <= 1 for block in result.blocks)


def tuning_runs(trial: Mapping[str, Any]) -> int:
    """Return how many tuning runs one learning rate had; 0 if that is not known.

    Args:
        trial: One rate of the account of tuning.
    """
    runs = trial.get("runs")
    return runs if isinstance(runs, int) else 0


def _tuned(result: "StudyResult") -> str:
    """Return how many rates were tried for each unit, and on what."""
    tried: set[float] = set()
    runs: set[int] = set()
    for group in result.tuning.get("groups") or ():
        tried |= {trial["lr"] for trial in group["tried"]}
        runs.add(sum(tuning_runs(trial) for trial in group["tried"]))
    if not tried:
        return "Tuned: the learning rate of each unit was chosen on held-out training examples."
    words = (
        "Tuned: for each unit, the best of "
        f"{plural(len(tried), 'learning rate')} "
        f"({rate(min(tried))} to {rate(max(tried))}) was chosen on held-out training examples"
    )
    most = max(runs, default=0)
    if most:
        words += f", with {plural(most, 'run')} that the comparison does not use"
    words += ". A difference is named only if it also holds at the neighbouring rates."
    why = str(result.tuning.get("why") or "").strip().rstrip(".")
    return f"{words} Not tuned: {why}." if why else words
