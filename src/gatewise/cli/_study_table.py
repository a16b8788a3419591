"""A study in the terminal: what differs from the baseline, by how much, how sure, and at what cost."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gatewise.cli._output import print_rich, table

if TYPE_CHECKING:
    from rich.table import Table

    from gatewise.studies import Comparison, Difference, Status, StudyResult

COLUMNS = ("unit", "mean ± spread", "n", "difference [95 %]", "p", "verdict", "params", "time")
WHOLE = COLUMNS[1:5] + COLUMNS[6:]


def print_study(result: "StudyResult") -> None:
    """One table for each backbone, then ranks, seeds needed, and what did not finish."""
    metric = result.content["metric"]
    print(result.content["title"] or result.content["name"])
    for block in result.blocks:
        values = result.values(block, metric)
        print(f"\n{_block_title(result, block)}: {_metric_title(metric)}")
        if result.baseline not in values:
            print(f"the baseline {result.baseline} has no finished cell here")
            continue
        compared = result.compare(block[0], metric, data=block[1], recipe=block[2])
        print_rich(_table(result, block, compared, _scale(metric)))
    print("p after Holm's correction; params and time as multiples of the baseline's")
    _print_ranking(result, metric)
    _print_seeds(result, metric)
    _print_rates(result)
    _print_unfinished(result)


def print_status(status: "Status") -> None:
    """A few lines."""
    from gatewise.train.progress import clock

    done = status.finished + status.diverged
    print(f"{status.title or status.name}: {done} of {status.total} {status.stage} done")
    print(f"running {len(status.running)}  failed {len(status.failed)}  waiting {status.waiting}")
    for cell in status.running:
        print(f"running: {_cell_name(cell)}")
    for cell in status.failed:
        print(f"failed: {_cell_name(cell)}: {cell['reason']}")
    if status.driver is None:
        print("nobody is at work" + (": give the same command again to go on" if status.waiting else ""))
    elif status.seconds_left is not None:
        print(f"{clock(status.seconds_left)} left")


def _table(result: "StudyResult", block: tuple[str, str, str], compared: "Comparison", scale: float) -> "Table":
    made = table(*COLUMNS, right=WHOLE, whole=WHOLE)
    costs = {each["unit"]: each for each in result.costs if (each["backbone"], each["data"], each["recipe"]) == block}
    mean = _with_spread(compared.baseline_mean, compared.baseline_spread, scale)
    made.add_row(compared.baseline, mean, str(compared.n), "", "", "baseline", *_ratios(costs.get(compared.baseline)))
    for each in sorted(compared.differences, key=lambda one: -one.difference):
        made.add_row(*_row(each, scale), *_ratios(costs.get(each.name)))
    return made


def _row(each: "Difference", scale: float) -> list[str]:
    low, high = (_number(bound * scale, sign=True) for bound in each.interval)
    difference = _number(each.difference * scale, sign=True) + (f" [{low}, {high}]" if low != "-" else "")
    mean = _with_spread(each.mean, each.spread, scale)
    return [each.name, mean, str(each.n), difference, f"{each.p_corrected:.3f}", each.verdict]


def _with_spread(mean: float, spread: float, scale: float) -> str:
    return f"{_number(mean * scale)} ± {_number(spread * scale)}"


def _ratios(cost: dict | None) -> list[str]:
    ratios = (cost or {}).get("ratios", {})
    return [f"{ratios[name]:.2f}x" if ratios.get(name) else "-" for name in ("parameters", "seconds")]


def _print_ranking(result: "StudyResult", metric: str) -> None:
    ranking = result.ranking(metric)
    if ranking is None or ranking.blocks < 2:
        return
    ordered = sorted(ranking.ranks.items(), key=lambda each: each[1])
    print(f"\nmean rank over {ranking.blocks} backbones: " + ", ".join(f"{name} {rank:.1f}" for name, rank in ordered))
    if math.isfinite(ranking.critical_difference):
        print(f"ranks nearer than {ranking.critical_difference:.1f} are not told apart (Nemenyi; p {ranking.p:.2f})")


def _print_seeds(result: "StudyResult", metric: str) -> None:
    effect = 0.01
    print()
    for block in result.blocks:
        needed = {unit: seeds for unit, seeds in result.seeds_for(block, effect, metric).items() if seeds}
        if needed:
            shown = ", ".join(f"{unit} {seeds}" for unit, seeds in needed.items())
            print(f"seeds to show a difference of {effect * _scale(metric):g} in {block[0]}: {shown}")


def _print_rates(result: "StudyResult") -> None:
    for each in result.content.get("tuned", []):
        edge = " (the largest or smallest tried)" if each["at_the_edge"] else ""
        print(f"learning rate chosen for {each['unit']} in {each['backbone']}: {each['lr']:g}{edge}")


def _print_unfinished(result: "StudyResult") -> None:
    for record in result.records:
        if record["status"] != "finished":
            print(f"{record['status']}, and left out: {_cell_name(record)}: {record['reason']}")


def _block_title(result: "StudyResult", block: tuple[str, str, str]) -> str:
    several = [len({each[place] for each in result.blocks}) > 1 for place in range(3)]
    return ", ".join(name for place, name in enumerate(block) if place == 0 or several[place])


def _metric_title(metric: str) -> str:
    return "test accuracy in %" if metric == "test_accuracy" else metric.replace("_", " ")


def _scale(metric: str) -> float:
    return 100.0 if metric == "test_accuracy" else 1.0


def _number(value: float, *, sign: bool = False) -> str:
    return "-" if not math.isfinite(value) else f"{value:+.2f}" if sign else f"{value:.2f}"


def _cell_name(cell: Mapping[str, Any]) -> str:
    names = (str(cell.get(name)) for name in ("unit", "backbone") if cell.get(name) is not None)
    return f"{' in '.join(names)}, seed {cell.get('seed')} ({cell.get('key')})"
