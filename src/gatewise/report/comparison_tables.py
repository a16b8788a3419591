"""The tables of a comparison: paired differences, costs, ranks, seeds needed, runs, what failed, environment."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence

from gatewise.report.charts import SAFE_LINK, Cell, Look, Table
from gatewise.report.comparison_answer import COST_WORDS, decimals, needed
from gatewise.report.findings import COSTS, Block, Findings, Run
from gatewise.report.words import MINUS, number, p_value, signed

LOOK_OF: dict[str, Look] = {"better": "up", "worse": "down"}
EFFECTS = {True: (1.0, 0.5), False: (0.1, 0.01)}  # differences one may wish to see: points of a hundred, or a loss


def paired_table(found: Findings, block: Block) -> Table | None:
    """Mean, spread and n of every unit, and its difference from the baseline with interval, tests and verdict."""
    comparison = block.comparison
    if comparison is None:
        return None
    digits, columns = decimals(found), ("unit", "n", "mean", "spread", "difference", "95 %", "p", "p (Holm)", "verdict")
    base = [
        comparison.baseline,
        _count(comparison.n),
        _number(comparison.baseline_mean, digits),
        _number(comparison.baseline_spread, digits),
    ]
    rows: list[list[str | Cell]] = [[*base, "", "", "", "", Cell("the baseline", look="mute")]]
    for one in comparison.differences:
        look = LOOK_OF.get(one.verdict, "")
        low, high = (signed(edge, digits) for edge in one.interval)
        rows.append([
            one.name, _count(one.n), _number(one.mean, digits), _number(one.spread, digits),
            Cell(signed(one.difference, digits), one.difference, look=look), f"[{low}, {high}]" if low else "not known",
            Cell(p_value(one.p), one.p), Cell(p_value(one.p_corrected), one.p_corrected), Cell(one.verdict, look=look),
        ])  # fmt: skip
    return Table(columns, rows, f"{block.name}: {found.metric.label}", "lrrrrrrrl")


def cost_table(block: Block) -> Table:
    """What each unit's network costs, and how many times the baseline's that is."""
    columns = ["unit"]
    for what in COSTS:
        columns += ["seconds" if what == "seconds" else COST_WORDS[what], "×"]
    rows = []
    for unit in block.runs:
        row: list[str | Cell] = [unit]
        for what in COSTS:
            cost, ratio = block.cost(unit, what), block.ratio(unit, what)
            row += [
                _cost(cost, what),
                Cell(f"{ratio:.2f}" if math.isfinite(ratio) else "", ratio if math.isfinite(ratio) else None),
            ]
        rows.append(row)
    return Table(
        columns,
        rows,
        f"{block.name}: one example forward; seconds are of training, the median over seeds",
        "l" + "rr" * len(COSTS),
    )


def rank_table(found: Findings) -> Table | None:
    """Each unit's rank on every block and the mean of them."""
    if found.ranking is None:
        return None
    names = list(found.ranking.ranks)
    per_block = [_ranks({unit: block.values[unit] for unit in names}, found) for block in found.blocks]
    ordered = sorted(names, key=lambda unit: found.ranking.ranks[unit])  # type: ignore[union-attr]
    rows: list[list[str | Cell]] = [
        [
            unit,
            *(Cell(number(ranks[unit]), ranks[unit]) for ranks in per_block),
            Cell(number(found.ranking.ranks[unit]), found.ranking.ranks[unit]),
        ]
        for unit in ordered
    ]
    return Table(
        ["unit", *(block.name for block in found.blocks), "mean rank"],
        rows,
        "Rank by mean, 1 is best",
        "l" + "r" * (len(found.blocks) + 1),
    )


def rank_words(found: Findings) -> str:
    """What the ranks show, with the critical difference."""
    ranking = found.ranking
    if ranking is None:
        return ""
    apart, most = ranking.critical_difference, max(ranking.ranks.values()) - min(ranking.ranks.values())
    blocks = f"{ranking.blocks} backbones, data sets or recipes"
    if not math.isfinite(apart):
        return f"Over {blocks} ranks can show nothing: two or more and three units are needed."
    head = f"Over {blocks}, two mean ranks must be {number(apart)} apart (Nemenyi’s critical difference; Friedman’s p {p_value(ranking.p)})"
    if apart > most:
        return (
            f"{head}; the furthest are {number(most)} apart, so ranks alone show no difference between any two units."
        )
    return f"{head}; the furthest are {number(most)} apart."


def _ranks(values: dict[str, dict[int, float]], found: Findings) -> dict[str, float]:
    """Ranks of the means, ties sharing theirs."""
    sign = -1 if found.metric.higher_is_better else 1
    means = {unit: sign * statistics.fmean(v.values()) for unit, v in values.items()}
    return {
        u: 1 + sum(o < m for o in means.values()) + (sum(o == m for o in means.values()) - 1) / 2
        for u, m in means.items()
    }


def seeds_table(found: Findings, block: Block) -> Table | None:
    """How many seeds it takes to show a given difference, and the one that was found."""
    if block.comparison is None:
        return None
    effects = EFFECTS[found.metric.factor != 1]
    count, rows = len(block.comparison.differences), []
    for one in block.comparison.differences:
        gaps = list(block.differences(one.name).values())
        spread = statistics.stdev(gaps) if len(gaps) > 1 else math.nan
        wanted = [*effects, abs(one.difference)]
        cells = [_seeds(needed(effect, spread, count)) if effect and math.isfinite(spread) else "" for effect in wanted]
        rows.append([one.name, _number(spread, decimals(found)), *cells])
    unit = " points" if found.metric.factor != 1 else ""
    columns = [
        "unit",
        "spread of differences",
        *(f"to show {number(e)}{unit}" for e in effects),
        "to show the one found",
    ]
    return Table(
        columns, rows, f"{block.name}: seeds needed, four times in five, at the level of {count} comparisons", "lrrrr"
    )


def runs_table(found: Findings, folder: str | None) -> Table:
    """Every run, with a link to its folder where the page knows the way."""
    varied = [i for i in range(3) if len({run.block[i] for run in found.runs}) > 1]
    columns = [
        "unit",
        *(("backbone", "data", "recipe")[i] for i in varied),
        "seed",
        "status",
        found.metric.label,
        "seconds",
        "folder",
    ]
    rows = [
        [run.unit, *(run.block[i] for i in varied), _count(run.seed), Cell(run.status, look="" if run.status == "finished" else "down"),
         _number(found.metric.of(run.record.get("metrics")), decimals(found)), _cost(_seconds(run), "seconds"), _link(run, folder)]
        for run in found.runs
    ]  # fmt: skip
    return Table(columns, rows, f"All {len(rows)} runs", "l" + "l" * len(varied) + "rlrrl")


def failed_table(found: Findings) -> Table | None:
    """The runs that did not finish, with their reasons."""
    wrong = [run for run in found.runs if run.status not in ("finished", "not run")]
    rows = [
        [
            run.unit,
            " · ".join(run.block),
            _count(run.seed),
            Cell(run.status, look="down"),
            str(run.record.get("reason") or "not said"),
        ]
        for run in wrong
    ]
    return (
        Table(["unit", "where", "seed", "status", "reason"], rows, "Runs that did not finish", "llrll")
        if rows
        else None
    )


def environment_table(found: Findings) -> Table | None:
    """What the runs ran on; where it was not the same for all, each value with how many runs had it."""
    kinds: dict[str, Counter[str]] = {}
    for run in found.runs:
        for name, value in (run.record.get("environment") or {}).items():
            kinds.setdefault(str(name), Counter())[str(value)] += 1
    rows = [[name, _values(values)] for name, values in kinds.items()]
    return Table(["what", "value"], rows, "Environment", "ll") if rows else None


def unequal_environment(found: Findings) -> Iterator[str]:
    """Names of what was not the same for all runs."""
    seen: dict[str, set[str]] = {}
    for run in found.runs:
        for name, value in (run.record.get("environment") or {}).items():
            seen.setdefault(str(name), set()).add(str(value))
    return (name for name, values in seen.items() if len(values) > 1)


def _values(values: Counter[str]) -> str | Cell:
    if len(values) == 1:
        return next(iter(values))
    return Cell(", ".join(f"{value} ({count} runs)" for value, count in values.most_common()), look="down")


def _link(run: Run, folder: str | None) -> str | Cell:
    if folder is None or not run.record:
        return run.key
    link = f"{folder.rstrip('/')}/cells/{run.key}/".lstrip("/")
    return Cell(run.key, link=link) if SAFE_LINK.fullmatch(link) else run.key


def _seconds(run: Run) -> float:
    found = run.record.get("seconds")
    return float(found) if isinstance(found, int | float) else math.nan


def _number(value: float, digits: int) -> Cell:
    return Cell(f"{value:.{digits}f}".replace("-", MINUS), value) if math.isfinite(value) else Cell("")


def _count(value: int) -> Cell:
    return Cell(str(value), value)


def _cost(value: float, what: str) -> Cell:
    if not math.isfinite(value):
        return Cell("not known", look="mute")
    return Cell(number(value) if what == "seconds" else f"{value:,.0f}", value)


def _seeds(value: float) -> Cell:
    return Cell(f"{value:,.0f}", value) if math.isfinite(value) else Cell("over a million")
