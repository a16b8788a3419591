"""The options of commands about models: the model, its arguments, weights and example input."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.options.model_reference import (
    FORMS,
    default_shape,
    load_model,
    reads_tokens,
    vocabulary,
)
from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gatewise.graph import Example
    from gatewise.surgery import Plan

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help=f"The model: {FORMS}.", show_default=False)
]
Input = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=][int:]SHAPE",
        help="The shape of an example input, batch first: `2x3x224x224`, or `ids=int:2x12` for "
        "token numbers by keyword. Repeat it for several inputs. Not needed for models of "
        "gatewise, timm and torchvision.",
    ),
]
ModelOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="An argument of the model's constructor, for example `--set num_classes=10`. "
        "Repeatable.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        "--weights",
        metavar="FILE",
        help="Load these weights first (.safetensors, or .pt with --trust).",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Read weights that torch.save wrote (.pt, .pth, .bin, .ckpt). Such a file is a "
        "pickle: use it only if you trust its author.",
    ),
]

_INPUT = re.compile(r"(?:(?P<name>\w+)=)?(?P<whole>int:)?(?P<shape>\d+(?:x\d+)*)")
LARGEST_EXAMPLE = 2**31  # elements
SEED = 0


def open_model(
    command: str,
    reference: str,
    settings: Mapping[str, Any],
    weights: Path | None = None,
    *,
    trust: bool = False,
) -> "nn.Module":
    """Return the model of a command, in eval mode, with its weights and the plan next to them.

    Args:
        command: The name of the command, for messages.
        reference: The argument ``MODEL``.
        settings: Arguments of the constructor.
        weights: The value of ``--weights``.
        trust: Whether the user gave ``--trust``.
    """
    model = load_model(reference, settings).eval()
    if weights is not None:
        apply_plan_beside(model, weights)
        load_weights(model, weights, trust=trust, command=f"gatewise {command} {reference}")
    return model


def key_values(flag: str, pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return ``KEY=VALUE`` pairs as a dictionary. A value that is not JSON is a string.

    Args:
        flag: The name of the option, for error messages.
        pairs: Its values on the command line.
    """
    values: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise ArgumentError(f"{flag}: is not of the form KEY=VALUE", got=pair)
        try:
            values[key] = json.loads(value)
        except (ValueError, RecursionError):
            values[key] = value
    return values


def example_for(
    reference: str,
    model: "nn.Module",
    inputs: Sequence[str] | None,
    *,
    rows: int | None = None,
) -> "Example":
    """Return random inputs.

    Args:
        reference: The argument ``MODEL``.
        model: The model.
        inputs: The values of ``--input``. Without any, the shape that the model's library names.
        rows: The batch size, instead of that of the shapes.
    """
    if not inputs:
        shape = default_shape(reference, model)
        if shape is None:
            raise ArgumentError(
                "--input: this model needs the shape of an example input",
                got=reference,
                fix="--input 2x3x224x224",
            )
        whole = reads_tokens(reference)
        return _tensor((rows or shape[0], *shape[1:]), whole=whole, model=model)
    named = {}
    positional = []
    for text in inputs:
        name, tensor = _one(text, model, rows)
        if name:
            named[name] = tensor
        else:
            positional.append(tensor)
    if named and positional:
        raise ArgumentError("--input: name all inputs or none", got=" ".join(inputs))
    return named or tuple(positional)


def _one(text: str, model: "nn.Module", rows: int | None) -> "tuple[str | None, Tensor]":
    """Return name and tensor of one value of ``--input``."""
    match = _INPUT.fullmatch(text)
    if match is None:
        raise ArgumentError(
            "--input: is not a shape",
            got=text,
            allowed="2x3x224x224, int:2x12 or NAME=int:2x12",
        )
    first, *rest = map(int, match["shape"].split("x"))
    shape = (rows or first, *rest)
    return match["name"], _tensor(shape, whole=match["whole"] is not None, model=model)


def _tensor(shape: tuple[int, ...], *, whole: bool, model: "nn.Module") -> "Tensor":
    """Return random numbers, or token numbers if ``whole``."""
    import math

    import torch

    if not 0 < math.prod(shape) < LARGEST_EXAMPLE:
        raise ArgumentError(
            "--input: the example is empty or too large",
            got="x".join(map(str, shape)),
            allowed=f"1 to {LARGEST_EXAMPLE - 1:,} elements",
        )
    generator = torch.Generator().manual_seed(SEED)
    if not whole:
        return torch.randn(shape, generator=generator)
    return torch.randint(0, vocabulary(model) or 2, shape, generator=generator)


def plan_beside(weights: Path) -> Path:
    """Return the file of the plan by which the model of some weights was changed.

    Args:
        weights: A file that ``gatewise swap`` or ``gatewise train`` wrote.
    """
    return weights.with_suffix(".plan.json")


def read_plan(path: Path) -> "Plan":
    """Read a plan from a file."""
    from gatewise.surgery import Plan

    try:
        return Plan.from_json(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise FileError(
            "--plan: the file cannot be read",
            got=str(path),
            fix="name a file that `gatewise swap --dry-run --json` or `gatewise swap` wrote",
        ) from problem


def apply_plan_beside(network: "nn.Module", weights: Path) -> None:
    """Change a model as the plan or the plans next to its weights say, if there are any.

    Args:
        network: The model.
        weights: The file of weights that are loaded next.
    """
    file = plan_beside(weights)
    if not file.is_file():
        return
    from gatewise.files import read_json
    from gatewise.surgery import load_swaps

    if "gatewise_swaps" in read_json(file):
        load_swaps(network, file)
    else:
        read_plan(file).apply(network)


def load_weights(network: "nn.Module", path: Path, *, trust: bool, command: str) -> None:
    """Load a file of weights into ``network``. Names and shapes must be those of the model.

    A file of ``save_pretrained`` has a tied weight under one of its names only, and may have
    buffers that the model computes itself.

    Args:
        network: The model.
        path: A safetensors file, or one of ``torch.save``.
        trust: Whether the user gave ``--trust``.
        command: The command without its options, for messages.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from gatewise.files import PICKLED, read_pickled_weights

    try:
        if path.suffix.lower() in PICKLED:
            trusted = f"{command} --weights {shlex.quote(str(path))} --trust"
            weights = read_pickled_weights(path, trust=trust, command=trusted)
        else:
            weights = load_file(path)
        network.load_state_dict(_complete(network, weights))
    except (OSError, SafetensorError) as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(
            "--weights: the file cannot be read",
            got=str(path),
            allowed=f"a safetensors file, or one of torch.save ({', '.join(PICKLED)})",
        ) from problem
    except RuntimeError as problem:
        reason = " ".join(str(problem).split())
        raise ArgumentError(f"--weights: do not fit this model ({reason})", got=str(path)) from None


def _complete(network: "nn.Module", weights: "Mapping[str, Tensor]") -> "dict[str, Tensor]":
    """Return weights with all names of tied ones, and without buffers that the model does not save.

    Args:
        network: The model.
        weights: Those of a file.
    """
    own = network.state_dict()
    complete = dict(weights)
    places = {(each.data_ptr(), each.shape): name for name, each in own.items() if name in weights}
    for name, each in own.items():
        tied = places.get((each.data_ptr(), each.shape))
        if name not in weights and each.numel() and tied is not None:
            complete[name] = weights[tied]
    for name, buffer in network.named_buffers():
        if name not in own and name in weights and weights[name].shape == buffer.shape:
            del complete[name]
    return complete
