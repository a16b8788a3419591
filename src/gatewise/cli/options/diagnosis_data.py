"""The inputs of ``gatewise diagnose``.

A data set by its name, arrays in files, a folder of images, or random ones.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from torch import Tensor, nn

RANDOM = 100  # inputs where there are no data
BATCH = 100
LARGEST_SIDE = 4096  # pixels


@dataclass(frozen=True)
class Found:
    """What a diagnosis is made on."""

    batches: Any
    about: str
    real: bool
    shape: str  # of an example, as --input takes it


def find_data(names: list[str], folder: Path | None, size: int | None, examples: int) -> Found:
    """Inputs from a data set, from ``.npy`` files, or from a folder of one's own images."""
    if all(name.endswith(".npy") for name in names):
        images, labels, about = _from_arrays([Path(name) for name in names], examples)
    elif len(names) == 1:
        images, labels, about = _from_set(names[0], folder, size, examples)
    else:
        raise ArgumentError("--data: one set, one folder, or .npy files", got=" ".join(names))
    if size is not None:
        images = _resized(images, size)
    pairs = (
        images.split(BATCH)
        if labels is None
        else list(zip(images.split(BATCH), labels.split(BATCH), strict=True))
    )
    return Found(pairs, about, True, "x".join(map(str, (2, *images.shape[1:]))))


def random_data(
    reference: str, model: "nn.Module", inputs: list[str] | None, examples: int
) -> Found:
    """Random numbers in place of data."""
    from gatewise.analysis import plural
    from gatewise.cli.options.model_options import example_for
    from gatewise.graph import Example

    count = min(examples, RANDOM)
    example: Example = example_for(reference, model, inputs, rows=count)
    return Found(
        [example], f"{plural(count, 'input')} of random numbers: no data were given", False, ""
    )


def _from_set(
    name: str, folder: Path | None, size: int | None, examples: int
) -> "tuple[Tensor, Tensor | None, str]":
    import torch

    from gatewise.data import load

    options: dict[str, Any] = {}
    if Path(name).is_dir():
        name, folder = "image_folder", Path(name)
        options = {} if size is None else {"size": size}
    found = load(name, folder=folder, **options)
    order = torch.randperm(len(found.test), generator=torch.Generator().manual_seed(0))[:examples]
    split = found.test.take(order)
    scaled = split.images.float() / (255 if split.images.dtype == torch.uint8 else 1)
    mean, std = (torch.tensor(each).reshape(1, -1, 1, 1) for each in (found.mean, found.std))
    labels = split.labels if found.classes else None
    about = f"{len(split):,} of {len(found.test):,} test images of {found.name}, each channel at mean 0 and deviation 1"
    return (scaled - mean) / std, labels, about


def _from_arrays(paths: list[Path], examples: int) -> "tuple[Tensor, Tensor | None, str]":
    """The rows of the arrays, bytes with 255 as 1, as they are otherwise."""
    import torch

    from gatewise.analysis import plural

    found, count = [], 0
    for path in paths:
        rows = _array(path)[: examples - count]
        tensor = torch.from_numpy(rows.copy())
        found.append(tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor)
        count += len(rows)
    if len({(each.shape[1:], each.dtype) for each in found}) > 1:
        shapes = ", ".join(
            f"{path.name} {tuple(each.shape)}" for path, each in zip(paths, found, strict=True)
        )
        raise ArgumentError("--data: the arrays are not of one kind", got=shapes)
    whole = torch.cat(found)
    whole = whole.float() if whole.dtype == torch.float64 else whole
    return (
        whole,
        None,
        f"{plural(len(whole), 'input')} of {', '.join(path.name for path in paths)}, as they are",
    )


def _array(path: Path) -> Any:
    import numpy as np

    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as problem:
        raise FileError(
            "--data: the file cannot be read", got=str(path), allowed="an array of numbers"
        ) from problem
    except ValueError as problem:
        raise ArgumentError(
            f"--data: is not an array of numbers ({problem})", got=str(path)
        ) from None
    if found.ndim < 2 or found.dtype.kind not in "fiub" or not len(found):
        got = f"{found.shape} of {found.dtype}"
        raise ArgumentError(
            f"--data: {path.name} must hold rows of inputs", got=got, allowed="(n, ...) of numbers"
        )
    return found


def _resized(images: "Tensor", size: int) -> "Tensor":
    from torch.nn.functional import interpolate

    if not 1 <= size <= LARGEST_SIDE:
        raise ArgumentError(
            "--size: must be a side in pixels", got=size, allowed=f"1 to {LARGEST_SIDE}"
        )
    if images.dim() != 4 or not images.is_floating_point():
        raise ArgumentError(
            "--size: only images can be resized", got=f"{size} for {tuple(images.shape)}"
        )
    return (
        images
        if images.shape[-1] == size == images.shape[-2]
        else interpolate(images, (size, size), mode="bilinear", antialias=True)
    )
