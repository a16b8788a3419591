"""The page of a sparse model: quality against sparsity, in all and for each layer, and the time."""

from collections.abc import Mapping, Sequence
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.report.charts import CATEGORIES, Cell, Chart, Mark, Series, Table
from gatewise.report.sheet import Section, Sheet, Text, sheet_page
from gatewise.words import number

FORMAT = "gatewise sparsity 1"
Facts = Mapping[str, Any]
# The first of these that was measured is drawn.
MEASURES = {
    "score": "score of evaluate",
    "loss": "loss",
    "agreement": "share of places with the same prediction",
    "difference": "change of the outputs, relative",
}
MOST_LINES = len(CATEGORIES)  # layers in one chart


def is_sparsity(record: object) -> bool:
    """Return whether these are the plain values of what sparsify returns."""
    return isinstance(record, Mapping) and record.get("format") == FORMAT


def sparsity_page(record: Facts) -> str:
    """Return the page as one HTML text that needs no other file and no network.

    Args:
        record: what ``Sparsified.to_dict()`` returns.

    Raises:
        ArgumentError: If this is no such record, or a part of it is missing.
    """
    if not is_sparsity(record):
        raise ArgumentError("page: not a sparse model", got=type(record).__name__, allowed=FORMAT)
    try:
        return sheet_page(_sheet(record))
    except (KeyError, TypeError, IndexError, AttributeError) as problem:
        reason = f"{type(problem).__name__}: {problem}"
        raise ArgumentError(f"page: the record is not complete ({reason})") from problem


def _sheet(record: Facts) -> Sheet:
    places = "gates" if record["method"] == "gate" else "inputs of linear layers"
    title = f"{record['sparsity']:.1%} of the numbers at {len(record['layers'])} {places} are zero"
    measure = _measure(record)
    sections = [Section("Quality against sparsity", [_curve(record, measure)])]
    if record.get("training") is not None:
        sections.append(Section("Training", [_stages(record["training"])]))
    if record["layer_curves"]:
        sections.append(Section("Each layer by itself", _layer_charts(record, measure)))
    sections.append(Section("Layers", [_layers(record["layers"])]))
    if record["times"]:
        sections.append(Section("Time of each layer for one row", [_times(record["times"])]))
    if record["left"]:
        rows = [[path, why] for path, why in record["left"].items()]
        sections.append(Section("Left as they are", [Table(["layer", "reason"], rows, align="ll")]))
    return Sheet(title, _about(record), _answer(record), sections, "sparsity", contents=False)


def _measure(record: Facts) -> str:
    """Return the name of the quality that is drawn."""
    for name in MEASURES:
        if record["before"].get(name) is not None:
            return name
    return "difference"


def _about(record: Facts) -> str:
    training = record.get("training")
    trained = "" if training is None else f"Activations were replaced by {training['unit']}. "
    return (
        f"{trained}Target {record['target']:.1%}. Thresholds come from one half of the data; "
        f"everything here was measured on {record['tokens']:,} tokens of the other half."
    )


def _answer(record: Facts) -> list[str]:
    before = record["before"]
    after = record["after"]
    lines = []
    training = record.get("training")
    if training is not None and training["untrained"]["loss"] is not None:
        words = number(training["untrained"]["loss"], 4)
        lines.append(f"loss after the replacement, before training: {words}")
    for name in ("score", "loss", "perplexity", "accuracy"):
        if before[name] is not None and after[name] is not None:
            lines.append(f"{name}: {number(before[name], 4)} to {number(after[name], 4)}")
    if after["agreement"] is not None:
        predicts = after.get("predicts", "places")
        lines.append(f"same prediction as before at {after['agreement']:.1%} of the {predicts}")
    lines.append(f"one row reads {1 - record['skipped']:.1%} of the weights of all linear layers")
    timing = record["timing"]
    if timing is not None:
        lines.append(
            f"time for {timing['what']} {timing['dense_seconds'] * 1e3:.3g} ms to "
            f"{timing['sparse_seconds'] * 1e3:.3g} ms (x {timing['ratio']:.2f}, "
            f"{timing['zeros']:.1%} of the numbers in it zero): {timing['verdict']}"
        )
    return [*lines, *record["notes"]]


def _curve(record: Facts, measure: str) -> Chart:
    points, notes = _points(record["curve"], measure)
    reached = record["sparsity"]
    return Chart(
        "All layers together",
        "Thresholds at all places, calibrated to one target at a time.",
        "share of numbers that are zero",
        MEASURES[measure],
        [Series(MEASURES[measure], points, notes=notes)],
        marks=[Mark("the sparse model", x=reached)],
        x_range=(0.0, 1.0),
    )


def _points(curve: Sequence[Facts], measure: str) -> tuple[list[tuple[float, float]], list[str]]:
    points = []
    notes = []
    for point in curve:
        value = point["quality"][measure]
        if value is not None:
            points.append((point["sparsity"], value))
            notes.append(f"{point['sparsity']:.1%} zero: {number(value, 4)}")
    return points, notes


def _layer_charts(record: Facts, measure: str) -> list[Any]:
    """Return charts of single layers, those that cost most first, and a line on how to read."""
    start = record["before"][measure]

    def cost(item: tuple[str, Sequence[Facts]]) -> float:
        last = item[1][-1]["quality"][measure]
        return 0.0 if last is None or start is None else abs(last - start)

    ordered = sorted(record["layer_curves"].items(), key=cost, reverse=True)
    charts: list[Any] = [
        Text(["A threshold at one layer only. Layers that change most come first."])
    ]
    for first in range(0, len(ordered), MOST_LINES):
        series = []
        for place, (name, curve) in enumerate(ordered[first : first + MOST_LINES]):
            points, notes = _points(curve, measure)
            if start is not None:
                points = [(0.0, start), *points]
                notes = [f"no threshold: {number(start, 4)}", *notes]
            colour = list(CATEGORIES)[place]
            series.append(Series(name, points, notes=notes, colour=colour))
        last = min(first + MOST_LINES, len(ordered))
        charts.append(
            Chart(
                f"Layers {first + 1} to {last} of {len(ordered)}",
                "",
                "share of numbers that are zero",
                MEASURES[measure],
                series,
                x_range=(0.0, 1.0),
            )
        )
    return charts


def _share(value: float) -> Cell:
    return Cell(f"{value:.1%}", value=value)


def _layers(rows: Sequence[Facts]) -> Table:
    cells = []
    for row in rows:
        low, middle, high = row["by_token"]
        cells.append(
            [
                row["layer"],
                row["kind"],
                Cell(f"{row['width']:,}", value=row["width"]),
                Cell(f"{row['weights']:,}", value=row["weights"]),
                Cell(number(row["threshold"], 4), value=row["threshold"]),
                _share(row["zeros"]),
                _share(row["sparsity"]),
                f"{low:.1%} / {middle:.1%} / {high:.1%}",
            ]
        )
    columns = ["layer", "where", "numbers", "weights", "threshold", "zeros before", "zeros"]
    quantiles = "zeros of a token: 10 %, 50 %, 90 %"
    return Table([*columns, quantiles], cells, align="llrrrrrr")


def _stages(training: Facts) -> Table:
    cells = []
    for number_of_stage, stage in enumerate(training["stages"], 1):
        cells.append(
            [
                str(number_of_stage),
                Cell(f"{stage['steps']:,}", value=stage["steps"]),
                Cell(number(stage["penalty"], 4), value=stage["penalty"]),
                Cell(number(stage["loss"], 4), value=stage["loss"]),
                _share(stage["zeros"]),
            ]
        )
    columns = ["stage", "steps", "penalty at its end", "training loss", "zeros in training"]
    return Table(columns, cells, align="lrrrr")


def _times(rows: Sequence[Facts]) -> Table:
    cells = []
    for row in rows:
        ratio = row["sparse_seconds"] / row["dense_seconds"]
        look = "up" if ratio < 1 else "down"
        cells.append(
            [
                row["layer"],
                Cell(f"{row['dense_seconds'] * 1e6:.1f}", value=row["dense_seconds"]),
                Cell(f"{row['sparse_seconds'] * 1e6:.1f}", value=row["sparse_seconds"]),
                Cell(f"{ratio:.2f}", value=ratio, look=look),
                "yes" if row["skips"] else "no",
            ]
        )
    columns = ["layer", "without threshold (µs)", "zeros skipped (µs)", "ratio", "skips"]
    return Table(columns, cells, align="lrrrl")
