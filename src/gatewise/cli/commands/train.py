"""``gatewise train``: one run in one folder, which can be killed at any moment and given again."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.output import print_error, print_json, print_note
from gatewise.errors import ArgumentError, FileError, LostProcessError

if TYPE_CHECKING:
    from gatewise.train import Result, RunConfig

INTERRUPTED = 130  # what a shell says of a command that was ended by Ctrl-C

Model = Annotated[str, typer.Option(help="The network, by its name.")]
Unit = Annotated[
    str | None, typer.Option(help="The unit in its slots; the network's own if not given.")
]
Data = Annotated[str, typer.Option(help="The data set, by its name.")]
DataFolder = Annotated[
    str | None, typer.Option(help="Where data sets are, if not in GATEWISE_DATA.")
]
RecipeName = Annotated[
    str, typer.Option("--recipe", help="A recipe by its name, or a file that ends in .toml.")
]
Epochs = Annotated[int | None, typer.Option(help="In place of the recipe's.")]
Seed = Annotated[int, typer.Option(help="Decides about initial weights, order and augmentation.")]
Out = Annotated[Path, typer.Option(help="The folder of this run alone.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe: --set optimiser.lr=0.01"),
]
ModelOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="Option of the network: --option scale=0.5"),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", metavar="KEY=VALUE", help="Option of the data set."),
]
Workers = Annotated[
    int, typer.Option(help="Threads that make batches ahead of time; changes no bit.")
]
Seconds = Annotated[float, typer.Option(help="Save at least this often; changes no bit.")]
KeepEvery = Annotated[
    int,
    typer.Option(
        "--keep-weights", min=0, help="Keep the weights after every so many epochs; 0 for none."
    ),
]
Inexact = Annotated[
    bool, typer.Option("--allow-inexact", help="Go on although versions or threads have changed.")
]
Sinks = Annotated[
    list[str] | None, typer.Option("--sink", help="Metrics for tensorboard or mlflow as well.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check: read no data, write nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def train(
    model: Model,
    out: Out,
    unit: Unit = None,
    data: Data = "digits",
    data_folder: DataFolder = None,
    recipe: RecipeName = "adam",
    epochs: Epochs = None,
    seed: Seed = 0,
    changes: Changes = None,
    options: ModelOptions = None,
    data_options: DataOptions = None,
    workers: Workers = 0,
    checkpoint_seconds: Seconds = 5.0,
    keep_weights: KeepEvery = 0,
    allow_inexact: Inexact = False,
    sinks: Sinks = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train one network, and write metrics, weights and `result.json` into a folder.

    Killed at any moment and given again, the same command goes on and ends in the same bits. Ctrl-C
    once saves and stops; twice stops at once. A finished run is not run again. Exit 1 if the run
    diverged, a disc failed, or one of several processes was lost.

    Example: `gatewise train --model convpool_cnn --unit crelu --epochs 3 --out runs/first`
    """
    from gatewise.train import (
        KeepWeights,
        Pace,
        ProgressLine,
        check_run,
        find_recipe,
        find_result,
        load_data,
        make_sink,
        run_config,
    )

    lines = [*as_lines("--set", changes), *([f"epochs = {epochs}"] if epochs is not None else [])]
    config = run_config(
        model=model,
        unit=unit,
        data=data,
        seed=seed,
        recipe=find_recipe(recipe, changes=lines),
        model_options=toml_table("--option", options),
        data_options=toml_table("--data-option", data_options),
    )
    if dry_run:
        check_run(config, out)
        return print(f"nothing speaks against it; config sha256 {config.digest}")
    pace = Pace(workers=workers, checkpoint_seconds=checkpoint_seconds)
    check_run(config, out)
    result = find_result(out, config)
    if result is not None:
        print_note(f"this run was over before: nothing was done in {out}")
    else:
        watchers = [ProgressLine(), *(make_sink(name, out) for name in sinks or [])]
        if keep_weights:
            watchers.append(KeepWeights(out, keep_weights))
        loaded = load_data(config, data_folder)
        result = _run(
            config, out, data=loaded, watchers=watchers, pace=pace, allow_inexact=allow_inexact
        )
    if os.environ.get("RANK", "0") == "0":  # one of several processes speaks for all
        _report(result, out, json)
    if _code(result):
        raise typer.Exit(_code(result))


def _run(config: "RunConfig", out: Path, **options: Any) -> "Result | None":
    from gatewise.train import StopSignal
    from gatewise.train import train as run

    stop = StopSignal(
        tell=lambda: print_note("\nstopping after this step; Ctrl-C again stops at once")
    )
    try:
        return run(config, out, stop=stop, **options)
    except (FileError, LostProcessError) as problem:  # not bad input: the disc, or another process
        print_error(str(problem))
        raise typer.Exit(CHECK_FAILED) from None


def _code(result: "Result | None") -> int:
    if result is None:
        return INTERRUPTED
    return 0 if result.status == "finished" else CHECK_FAILED


def _report(result: "Result | None", out: Path, json: bool) -> None:
    if result is None:
        return print_note(f"stopped and saved; to go on: {shlex.join(['gatewise', *sys.argv[1:]])}")
    if json:
        print_json(result.to_dict())
    else:
        _print(result, out)
    if result.status != "finished":
        print_error(f"the run {result.status}: {result.reason}")


def _print(result: "Result", out: Path) -> None:
    print(
        f"{result.status} after {result.epochs} epochs and {result.steps} steps in {result.seconds:.1f} s"
    )
    for name, value in (result.metrics or {}).items():
        if name.endswith(("loss", "accuracy")) and value is not None:
            print(f"{name.replace('_', ' '):15} {value:.4f}")
    print(f"weights sha256  {result.weights_sha256}")
    print(f"result          {out / 'result.json'}")


def toml_table(option: str, given: list[str] | None) -> dict[str, Any]:
    """``KEY=VALUE`` as TOML, where a value that is not TOML is a string."""
    from gatewise.train import parse

    table: dict[str, Any] = {}
    for line in as_lines(option, given):
        table |= parse(line, option)
    return table


def as_lines(option: str, given: list[str] | None) -> list[str]:
    """Each ``KEY=VALUE`` as a line of TOML; a bare word is quoted."""
    from gatewise.train import parse

    lines = []
    for each in given or []:
        key, equals, value = each.partition("=")
        if not equals or not key.strip() or "\n" in each:
            raise ArgumentError(
                f"{option}: a key and a value are needed", got=each, allowed="KEY=VALUE"
            )
        try:
            parse(f"x = {value}", option)
            lines.append(f"{key} = {value}")
        except ArgumentError:
            lines.append(f'{key} = "{_escaped(value)}"')
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
