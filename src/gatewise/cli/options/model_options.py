"""What the commands about models are given.

Options as ``KEY=VALUE``, and an example by its shape.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.options.model_reference import FORMS, default_shape, load_model
from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gatewise.graph import Example

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help=f"The model: {FORMS}.", show_default=False)
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=][int:]SHAPE",
        help="The example, such as 1x3x224x224 or ids=int:2x12.",
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An option of the model.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights", metavar="FILE", help="Weights of the model as it is now: .safetensors."
    ),
]

_INPUT = re.compile(r"(?:(?P<name>\w+)=)?(?P<whole>int:)?(?P<shape>\d+(?:x\d+)*)")
LARGEST_EXAMPLE = 2**31  # numbers
SEED = 0


def model_and_example(
    reference: str, inputs: Sequence[str] | None, options: Sequence[str] | None
) -> Any:
    """The model that a command is about, in eval mode, and an example of random numbers for it."""
    model = load_model(reference, key_values("--set", options)).eval()
    return model, example_for(reference, model, inputs)


def key_values(flag: str, given: Sequence[str] | None) -> dict[str, Any]:
    """``KEY=VALUE`` pairs; a value is read as JSON where it is JSON, else taken as text."""
    found: dict[str, Any] = {}
    for each in given or ():
        key, equals, value = each.partition("=")
        if not equals or not key.isidentifier():
            raise ArgumentError(f"{flag}: is not of the form KEY=VALUE", got=each)
        try:
            found[key] = json.loads(value)
        except (ValueError, RecursionError):
            found[key] = value
    return found


def example_for(
    reference: str, model: "nn.Module", inputs: Sequence[str] | None, *, rows: int | None = None
) -> "Example":
    """Random numbers of the shapes in ``inputs``.

    Without any, of the shape the model is known to take.

    ``rows`` inputs, if that is given, in place of what the shapes begin with.
    """
    if not inputs:
        shape = default_shape(reference, model)
        if shape is None:
            raise ArgumentError(
                "--input: the shape of an example is needed",
                got=reference,
                fix="--input 2x3x224x224",
            )
        return _tensor((rows or shape[0], *shape[1:]), whole=False, model=model)
    named, positional = {}, []
    for each in inputs:
        name, tensor = _one(each, model, rows)
        if name:
            named[name] = tensor
        else:
            positional.append(tensor)
    if named and positional:
        raise ArgumentError("--input: name all inputs or none", got=" ".join(inputs))
    return named or tuple(positional)


def _one(text: str, model: "nn.Module", rows: int | None) -> "tuple[str | None, Tensor]":
    found = _INPUT.fullmatch(text)
    if found is None:
        raise ArgumentError(
            "--input: is not a shape", got=text, allowed="2x3x224x224, int:2x12 or NAME=int:2x12"
        )
    first, *rest = (int(size) for size in found["shape"].split("x"))
    return found["name"], _tensor(
        (rows or first, *rest), whole=found["whole"] is not None, model=model
    )


def _tensor(shape: tuple[int, ...], *, whole: bool, model: "nn.Module") -> "Tensor":
    import math

    import torch

    if not 0 < math.prod(shape) < LARGEST_EXAMPLE:
        raise ArgumentError(
            "--input: an example of this size is of no use", got="x".join(map(str, shape))
        )
    generator = torch.Generator().manual_seed(SEED)
    if not whole:
        return torch.randn(shape, generator=generator)
    words = getattr(getattr(model, "config", None), "vocab_size", 2)
    return torch.randint(0, words, shape, generator=generator)


def load_weights(network: "nn.Module", path: Path) -> None:
    """Weights from a safetensors file of anyone's: the names and shapes must be the model's."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        network.load_state_dict(load_file(path))
    except (OSError, SafetensorError) as problem:
        raise FileError(
            "--weights: the file cannot be read", got=str(path), allowed="a safetensors file"
        ) from problem
    except RuntimeError as problem:
        reason = " ".join(str(problem).split())
        raise ArgumentError(f"--weights: are not this model's ({reason})", got=str(path)) from None
