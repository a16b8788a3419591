"""``gatewise train``: train one network in one folder. An interrupted run can be resumed."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import (
    DATA_HELP,
    DataFolder,
    DataOptions,
    Device,
    DryRun,
    Epochs,
    Json,
    Model,
    ModelOptions,
    RecipeChanges,
    TestArrays,
    built_in_name,
    check_least,
    comparison_data,
    is_data_set,
    key_values,
    model_factory,
    plan_beside,
    recipe_lines,
)
from gatewise.cli.output import print_error, print_json, print_note
from gatewise.errors import FileError, LostProcessError

if TYPE_CHECKING:
    from gatewise.train import Result, RunConfig

INTERRUPTED = 130  # the exit code that shells use for Ctrl-C

Unit = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The activation function, a unit of `gatewise list units`. Default: the network's.",
    ),
]
TrainingData = Annotated[str, typer.Option("--data", metavar="NAME|FILE|FOLDER", help=DATA_HELP)]
RecipeName = Annotated[
    str,
    typer.Option("--recipe", metavar="NAME|FILE.toml", help="The training recipe."),
]
Seed = Annotated[
    int, typer.Option(help="Decides initial weights, order of batches and augmentation.")
]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder of this run. One folder for each run.")
]
LoadingThreads = Annotated[
    int,
    typer.Option(
        "--loading-threads",
        help="Threads that prepare batches in advance. Does not change the result.",
    ),
]
Seconds = Annotated[
    float,
    typer.Option(
        help="Save a checkpoint at least this often, in seconds. Does not change the result."
    ),
]
KeepEvery = Annotated[
    int,
    typer.Option(
        "--keep-weights",
        min=0,
        help="Keep the weights after every N epochs. 0 keeps none.",
    ),
]
Inexact = Annotated[
    bool,
    typer.Option(
        "--allow-inexact",
        help="Resume even if library versions or threads have changed. The result may then "
        "differ slightly from an uninterrupted run.",
    ),
]
Sinks = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        metavar="tensorboard|mlflow",
        help="Also write the metrics for this tool. Repeatable.",
    ),
]


def train(
    model: Model,
    out: Out,
    unit: Unit = None,
    data: TrainingData = "digits",
    test: TestArrays = None,
    data_folder: DataFolder = None,
    recipe: RecipeName = "adam",
    epochs: Epochs = None,
    seed: Seed = 0,
    changes: RecipeChanges = None,
    set: ModelOptions = None,
    data_options: DataOptions = None,
    device: Device = "cpu",
    loading_threads: LoadingThreads = 0,
    checkpoint_seconds: Seconds = 5.0,
    keep_weights: KeepEvery = 0,
    allow_inexact: Inexact = False,
    sinks: Sinks = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Train one network, and write metrics, weights and `result.json` to a folder.

    If interrupted, rerun the same command to resume. The result is bit-identical to that of an
    uninterrupted run. Press Ctrl-C once to save and stop, twice to stop at once. A finished run is
    not repeated. The exit code is 1 if the training diverged, the disk failed, or one of several
    processes crashed.

    Networks of gatewise are built with the unit. In others the activations are replaced, as
    `gatewise swap --no-preserve` does, and the plan is written next to the weights.

    Example: `gatewise train small_cnn --unit crelu --epochs 3 --out runs/first`
    """
    from gatewise.files import write_text
    from gatewise.studies import plan_run
    from gatewise.train import (
        KeepWeights,
        Pace,
        ProgressLine,
        check_run,
        find_device,
        find_recipe,
        find_result,
        load_data,
        make_sink,
        run_config,
    )

    check_least("--seed", seed, 0)
    check_least("--loading-threads", loading_threads, 0)
    check_least("--checkpoint-seconds", checkpoint_seconds, 0)
    chosen = find_recipe(recipe, changes=recipe_lines(changes, epochs))
    find_device(device)
    settings = key_values("--set", set)
    data_settings = key_values("--data-option", data_options)
    planned = None
    built_in = built_in_name(model)
    if built_in is not None and is_data_set(data) and test is None:
        config = run_config(
            model=built_in,
            unit=unit,
            data=data,
            seed=seed,
            recipe=chosen,
            model_options=settings,
            data_options=data_settings,
        )
        check_run(config, out)
    else:
        planned = plan_run(
            model_factory(model, settings),
            comparison_data(data, test, data_settings, data_folder),
            chosen,
            unit=None if unit is None else {"name": unit, "match": "none"},
            seed=seed,
            name=model,
        )
        config = planned.config
    if dry_run:
        return print(f"Configuration is valid (sha256 {config.digest}). Nothing was run.")
    pace = Pace(workers=loading_threads, checkpoint_seconds=checkpoint_seconds)
    # A finished run is found before data are loaded, so that repeating a command is cheap.
    result = find_result(out, config)
    if result is not None:
        print_note(f"{out} is already finished; nothing to do.")
    else:
        watchers = [ProgressLine(), *(make_sink(name, out) for name in sinks or [])]
        if keep_weights:
            watchers.append(KeepWeights(out, keep_weights))
        result = _run(
            config,
            out,
            data=None if planned else load_data(config, data_folder),
            setup=planned.setup if planned else None,
            watchers=watchers,
            device=device,
            pace=pace,
            allow_inexact=allow_inexact,
        )
        if result is not None and planned is not None and planned.variant.plan is not None:
            plan = plan_beside(out / "weights.safetensors")
            write_text(plan, planned.variant.plan.to_json())
    if os.environ.get("RANK", "0") == "0":  # of several processes, only the first prints
        _report(result, out, json)
    if result is None:
        raise typer.Exit(INTERRUPTED)
    if result.status != "finished":
        raise typer.Exit(CHECK_FAILED)


def _run(config: "RunConfig", out: Path, **options: Any) -> "Result | None":
    """Train. A failed disk or a lost process is exit code 1."""
    from gatewise.train import StopSignal
    from gatewise.train import train as run

    stop = StopSignal(
        tell=lambda: print_note("\nstopping after this step; press Ctrl-C again to stop at once")
    )
    try:
        return run(config, out, stop=stop, **options)
    except (FileError, LostProcessError) as problem:  # the disk or another process failed
        print_error(str(problem))
        raise typer.Exit(CHECK_FAILED) from None


def _report(result: "Result | None", out: Path, json: bool) -> None:
    """Print the result as text or JSON, or how to resume."""
    if result is None:
        return print_note(stopped_message())
    if json:
        print_json(result.to_dict())
    else:
        _print(result, out)
    if result.status != "finished":
        print_error(f"the run {result.status}: {result.reason}")


def stopped_message() -> str:
    """Return the message after Ctrl-C, with the command that resumes."""
    return f"stopped and saved; to resume: {shlex.join(['gatewise', *sys.argv[1:]])}"


def _print(result: "Result", out: Path) -> None:
    """Print the result as text."""
    work = f"{result.epochs} epochs and {result.steps} steps in {result.seconds:.1f} s"
    print(f"{result.status} after {work}")
    for name, value in (result.metrics or {}).items():
        if name.endswith(("loss", "accuracy")) and value is not None:
            print(f"{name.replace('_', ' '):15} {value:.4f}")
    print(f"weights sha256  {result.weights_sha256}")
    print(f"result          {out / 'result.json'}")
