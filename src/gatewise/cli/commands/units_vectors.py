"""``gatewise units vectors``: write reference vectors of a unit."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.output import check_target, print_note

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the unit.")]
Half = Annotated[str, typer.Option("--dtype", metavar="NAME", help="bfloat16 or float16.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The safetensors file to write.")]


def vectors(name: Name, out: Out, dtype: Half = "bfloat16") -> None:
    """Write every 16-bit input of a unit with its correct value and derivative.

    The file is safetensors with the tensors `x`, `value` and `derivative`, each of 65,536 numbers
    in the order of the inputs' bits. The metadata names the unit and its options.

    Example: `gatewise units vectors gelu --dtype bfloat16 --out gelu.safetensors`
    """
    from gatewise.files import write_tensors
    from gatewise.testing import reference_vectors

    target = check_target(out)
    tensors, about = reference_vectors(name, dtype)
    write_tensors(target, tensors, metadata=about)
    print_note(f"wrote {target}: 65,536 inputs of {about['unit']} in {about['dtype']}")
