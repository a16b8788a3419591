"""``gatewise sparsify``: sparse activations without training, and what they cost."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.options import (
    DataFolder,
    DataRequest,
    Input,
    Json,
    Model,
    ModelOptions,
    Trust,
    Weights,
    key_values,
    load_weights,
)
from gatewise.cli.output import check_target, print_json, print_note, print_rich, table

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="NAME|FOLDER|FILE",
        help="The inputs: a data set of `gatewise data`, a folder of images, arrays (.npy, .npz; "
        "repeatable), or text (.txt). Default: random numbers.",
    ),
]
Target = Annotated[
    float,
    typer.Option("--target", metavar="SHARE", help="The share of numbers that become zero."),
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
    bool,
    typer.Option("--per-layer/--all-layers", help="Also measure every layer separately."),
]
Examples = Annotated[int, typer.Option(min=2, help="Number of inputs to use.")]
Length = Annotated[
    int, typer.Option("--length", min=1, metavar="TOKENS", help="Tokens in a row of text.")
]
Tokenizer = Annotated[
    Path | None,
    typer.Option("--tokenizer", metavar="FILE", help="The tokenizer.json for text."),
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Write the page to this HTML file.")
]


def sparsify(
    model: Model,
    data: Data = None,
    target: Target = 0.5,
    method: Method = "input",
    where: Where = None,
    per_layer: PerLayer = True,
    examples: Examples = 64,
    length: Length = 128,
    tokenizer: Tokenizer = None,
    data_folder: DataFolder = None,
    weights: Weights = None,
    trust: Trust = False,
    input: Input = None,
    set: ModelOptions = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Set small numbers inside a model to zero, without training, and measure what it costs.

    Prints the share of zeros that was reached, the change of loss and predictions, and
    the time for one input with zeros skipped. `--out` writes a page with quality against sparsity.

    Example: `gatewise sparsify gatewise:small_llama --data text --target 0.5 --out sparse.html`
    """
    from gatewise.cli.options import find_data, load_model, random_data
    from gatewise.report import write_page
    from gatewise.sparsity import sparsify as make_sparse

    if out is not None:
        check_target(out)
    settings = key_values("--set", set)
    network = load_model(model, settings).eval()
    if weights is not None:
        load_weights(network, weights, trust=trust, command=f"gatewise sparsify {model}")
    if data:
        request = DataRequest(
            names=data,
            examples=examples,
            reference=model,
            network=network,
            model_options=settings,
            folder=data_folder,
            tokenizer=tokenizer,
            length=length,
            next_tokens=True,
        )
        inputs = find_data(request)
    else:
        inputs = random_data(model, network, input, examples)
    result = make_sparse(
        network,
        inputs.batches,
        target=target,
        method=method,
        where=where or None,
        per_layer=per_layer,
    )
    if out is not None:
        write_page(result, out)
    if json:
        return print_json(result.to_dict())
    rows = table("layer", "zeros before", "zeros", "threshold", right=["zeros before", "zeros"])
    for row in result.layers:
        rows.add_row(row.layer, f"{row.zeros:.1%}", f"{row.sparsity:.1%}", f"{row.threshold:.4g}")
    print_rich(rows, f"Inputs: {inputs.about}", *str(result).splitlines())
    if out is not None:
        print_note(f"page  {out}")
