"""``gatewise sparsify``: sparse activations, with or without training, and what they cost."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.cli.error_group import named_options
from gatewise.cli.options import (
    DataFolder,
    DataRequest,
    Input,
    Json,
    Length,
    Model,
    ModelOptions,
    Tokenizer,
    Trust,
    Weights,
    as_options,
    key_values,
    open_model,
)
from gatewise.cli.output import (
    Watch,
    check_target,
    print_json,
    print_note,
    print_rich,
    table,
)
from gatewise.errors import ArgumentError

ROWS = 16  # of a batch of training
# Defaults of the options that need --relu.
TRAIN_EXAMPLES = 256
EPOCHS = 1
RATE = 1e-4
SHIFT = 1.0

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="NAME|FOLDER|FILE",
        help="The inputs: a data set of `gatewise list data`, a folder of images, arrays "
        "(.npy, .npz; repeatable), or text (.txt). Default: random numbers.",
    ),
]
Target = Annotated[
    float | None,
    typer.Option(
        "--target",
        metavar="SHARE",
        help="The share of numbers that become zero. Default: 0.5; with --relu the zeros of the "
        "activation alone.",
    ),
]
Method = Annotated[
    str,
    typer.Option(
        "--method",
        metavar="input|gate",
        help="Thresholds on the inputs of linear layers, or on gates.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="PATTERN",
        help="Only layers or gates whose path matches, such as `*.down`. Repeatable.",
    ),
]
PerLayer = Annotated[
    bool | None,
    typer.Option(
        "--per-layer/--all-layers",
        help="Also measure every layer separately. Default: where that takes less than two "
        "minutes.",
    ),
]
Examples = Annotated[int, typer.Option(min=2, help="Number of inputs to use.")]
Relu = Annotated[
    str | None,
    typer.Option(
        "--relu",
        metavar="relu|shifted_relu|relu2",
        help="Put this in place of smooth activations, and train the model, before zeros are "
        "counted. Needs data with labels.",
    ),
]
TrainExamples = Annotated[
    int,
    typer.Option("--train-examples", min=1, help="With --relu: further inputs to train on."),
]
TrainEpochs = Annotated[int, typer.Option("--epochs", min=1, help="With --relu: epochs.")]
TrainRate = Annotated[
    float, typer.Option("--lr", metavar="RATE", help="With --relu: learning rate of AdamW.")
]
Penalty = Annotated[
    list[float] | None,
    typer.Option(
        "--penalty",
        metavar="WEIGHT",
        help="With --relu: weight of the penalty on activations at the end of a stage. Repeatable: "
        "one stage each. Default: 0, 10 and 30.",
    ),
]
ShiftBy = Annotated[
    float, typer.Option("--shift", help="With --relu shifted_relu: max(x - SHIFT, 0).")
]
Norms = Annotated[
    bool,
    typer.Option(
        "--norms", help="With --relu: ReLU after norms too, where linear layers read them."
    ),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the page to this HTML file.")
]


def _divided(batches: Any, held_out: int) -> tuple[list[Any], list[Any]]:
    """Return batches to train on, and others with the last ``held_out`` rows."""
    import torch

    rows = []
    for batch in batches:
        if not isinstance(batch, tuple):
            raise ArgumentError(
                "--relu: training needs labels",
                got="data without labels",
                fix="--data with a data set, text, or arrays with labels",
            )
        rows.append(batch)
    inputs = torch.cat([each[0] for each in rows])
    labels = torch.cat([each[1] for each in rows])
    count = len(inputs) - held_out
    if count < 1:
        raise ArgumentError(
            "--relu: no input is left to train on", got=f"{len(inputs)} inputs", fix="--examples 64"
        )
    train = list(zip(inputs[:count].split(ROWS), labels[:count].split(ROWS), strict=True))
    return train, list(zip(inputs[count:].split(ROWS), labels[count:].split(ROWS), strict=True))


def _refuse_training(given: dict[str, bool]) -> None:
    """Raise for an option of training where nothing is trained."""
    names = [name for name, is_given in given.items() if is_given]
    if names:
        raise ArgumentError(
            f"{', '.join(names)}: without --relu nothing is trained",
            fix=f"add --relu relu, or leave out {', '.join(names)}",
        )


def sparsify(
    context: typer.Context,
    model: Model,
    data: Data = None,
    target: Target = None,
    method: Method = "input",
    where: Where = None,
    per_layer: PerLayer = None,
    examples: Examples = 64,
    length: Length = 128,
    tokenizer: Tokenizer = None,
    relu: Relu = None,
    train_examples: TrainExamples = TRAIN_EXAMPLES,
    epochs: TrainEpochs = EPOCHS,
    lr: TrainRate = RATE,
    penalty: Penalty = None,
    shift: ShiftBy = SHIFT,
    norms: Norms = False,
    data_folder: DataFolder = None,
    weights: Weights = None,
    trust: Trust = False,
    input: Input = None,
    set: ModelOptions = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Set small numbers inside a model to zero, and measure what it costs.

    Prints the share of zeros that was reached, the change of loss and predictions, and
    the time for one input with zeros skipped. `--out` writes a page with quality against sparsity.
    Nothing is trained, except with `--relu`.

    Example: `gatewise sparsify small_llama --data text --target 0.5 --out sparse.html`
    Example: `gatewise sparsify small_llama --data text --relu relu --epochs 3`
    """
    from gatewise.cli.options import find_data
    from gatewise.report import write_page
    from gatewise.sparsity import PENALTIES, relufy
    from gatewise.sparsity import sparsify as make_sparse

    if out is not None:
        check_target(out)
    if relu is None:
        _refuse_training(
            {
                "--train-examples": train_examples != TRAIN_EXAMPLES,
                "--epochs": epochs != EPOCHS,
                "--lr": lr != RATE,
                "--penalty": bool(penalty),
                "--shift": shift != SHIFT,
                "--norms": norms,
            }
        )
    settings = key_values("--set", set)
    network = open_model("sparsify", model, settings, weights, trust=trust)
    request = DataRequest(
        names=data or [],
        examples=examples if relu is None else examples + train_examples,
        reference=model,
        network=network,
        model_options=settings,
        folder=data_folder,
        tokenizer=tokenizer,
        length=length,
        next_tokens=True,
    )
    inputs = find_data(request, input)
    with Watch({}) as watch:
        if relu is None:
            result = make_sparse(
                network,
                inputs.batches,
                target=0.5 if target is None else target,
                method=method,
                where=where or None,
                per_layer=per_layer,
                progress=watch,
            )
        else:
            train, held_out = _divided(inputs.batches, examples)
            result = relufy(
                network,
                train,
                held_out,
                unit=relu,
                shift=shift,
                where=where or None,
                epochs=epochs,
                lr=lr,
                penalties=tuple(penalty or PENALTIES),
                norms=norms,
                target=target or 0.0,
                per_layer=per_layer,
                progress=watch,
            )
    if out is not None:
        write_page(result, out)
    if json:
        return print_json(result.to_dict())
    rows = table("layer", "zeros before", "zeros", "threshold", right=["zeros before", "zeros"])
    for row in result.layers:
        threshold = "none" if row.threshold is None else f"{row.threshold:.4g}"
        rows.add_row(row.layer, f"{row.zeros:.1%}", f"{row.sparsity:.1%}", threshold)
    options = named_options(context.command)
    lines = [as_options(line, options) for line in str(result).splitlines()]
    print_rich(rows, f"Inputs: {inputs.about}", *lines)
    if out is not None:
        print_note(f"page  {out}")
