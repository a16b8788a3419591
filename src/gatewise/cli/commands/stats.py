"""``gatewise stats``: compare runs that were made elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.options import Json
from gatewise.cli.output import check_target, print_json, print_note

if TYPE_CHECKING:
    from gatewise.studies import ComparisonResult

PAGES = (".html", ".htm")

Tables = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE|FOLDER...",
        help="A table of runs (CSV, TSV, Parquet), or several; or a folder of TensorBoard or "
        "MLflow runs.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of the method. Default: by its name."),
]
Task = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="The column of the task or data set; methods are compared within a task. Can be "
        "repeated. Default: by its name.",
    ),
]
Seed = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column of the seed. Default: by its name.")
]
Rate = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of the learning rate. Default: by its name."),
]
Average = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column whose rows are averaged for each seed."),
]
Value = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="The column of the result. Repeat it for a table with one column per method.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The name of the result, or which one if a column names the metric."
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="max|min",
        help="Whether higher or lower is better. Known for usual metrics, such as accuracy.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The method that the others are compared with. Default: `baseline` or `relu`, else "
        "the first.",
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="Differences smaller than this count as equivalent, in the unit of the table."
    ),
]
Unpaired = Annotated[
    bool, typer.Option("--unpaired", help="Ignore that runs of two methods have equal seeds.")
]
Examples = Annotated[
    int | None,
    typer.Option(help="Number of test examples that an accuracy was counted on, if known."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE.html", help="Write the page of a study.")
]
CsvOut = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE.csv", help="Write differences, intervals and p-values."),
]


def stats(
    tables: Tables,
    method: Method = None,
    task: Task = None,
    rate: Rate = None,
    seed: Seed = None,
    value: Value = None,
    average: Average = None,
    metric: Metric = None,
    mode: Mode = None,
    baseline: Baseline = None,
    margin: Margin = None,
    unpaired: Unpaired = False,
    examples: Examples = None,
    out: Out = None,
    csv: CsvOut = None,
    json: Json = False,
) -> None:
    """Compare methods by runs that were made elsewhere. No model is needed.

    Reads a table with one row per run (method, seed, result; also learning rate and task), and
    exports of W&B, TensorBoard and MLflow. Prints which methods differ from the baseline, with
    confidence intervals corrected for the number of comparisons.

    With at least four learning rates at equal ratios, the rule is that of `gatewise compare`. Rows
    of one method and seed are averaged. A result of `nan` or `inf` is a run that diverged. An empty
    cell is a missing run.

    Example: `gatewise stats results.csv --baseline relu --out page.html`
    """
    if out is not None:
        check_target(out, PAGES)
    if csv is not None:
        check_target(csv)
    from gatewise.studies import compare_records

    result = compare_records(
        tables if len(tables) > 1 else tables[0],
        method=method,
        task=task,
        rate=rate,
        seed=seed,
        value=value,
        average=average,
        metric=metric,
        mode=mode,
        baseline=baseline,
        margin=margin,
        paired=False if unpaired else None,
        examples=examples,
    )
    if json:
        print_json(result.to_dict())
    else:
        _print_reading(result)
        print(result)
    _write(result, out, csv)


def _print_reading(result: "ComparisonResult") -> None:
    """Print how the table was read."""
    settings = result.header.settings
    print(f"{settings['source']}: {len(result.records)} runs of {len(result.units)} methods")
    columns = ", ".join(f"{role} = {column}" for role, column in settings["columns"].items())
    direction = "higher" if result.display.higher_is_better else "lower"
    print(f"columns  {columns}")
    print(f"baseline {result.baseline}; {direction} {result.display.name} is better")
    for note in result.header.notes:
        print(f"note     {note}")
    print()


def _write(result: "ComparisonResult", out: Path | None, csv: Path | None) -> None:
    """Write the page and the CSV file, if they were asked for."""
    from gatewise.files import write_text

    if csv is not None:
        from gatewise.studies import comparison_csv

        write_text(csv, comparison_csv(result))
        print_note(f"wrote {csv}")
    if out is not None:
        from gatewise.report import write_page

        write_page(result, out)
        print_note(f"wrote {out}")
