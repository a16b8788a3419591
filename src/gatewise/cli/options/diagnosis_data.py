"""The inputs of ``gatewise diagnose``: a data set, arrays in files, images, or random numbers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from torch import Tensor, nn

MOST_RANDOM = 100  # random inputs
BATCH = 100
LARGEST_SIDE = 4096  # pixels


@dataclass(frozen=True)
class DiagnosisData:
    """The inputs of a diagnosis.

    Attributes:
        batches: The batches, with labels if there are any.
        about: One sentence on where they come from.
        real: Whether they are data, and not random numbers.
        shape: The shape of an example, as ``--input`` accepts it.
    """

    batches: Any
    about: str
    real: bool
    shape: str


def find_data(
    names: list[str], folder: str | None, size: int | None, examples: int
) -> DiagnosisData:
    """Return inputs from a data set, from ``.npy`` files or from a folder of images.

    Args:
        names: The values of ``--data``.
        folder: The folder of the data sets.
        size: The side to resize images to, in pixels.
        examples: How many inputs to use at most.
    """
    if all(name.endswith(".npy") for name in names):
        images, labels, about = _from_arrays([Path(name) for name in names], examples)
    elif len(names) == 1:
        images, labels, about = _from_set(names[0], folder, size, examples)
    else:
        raise ArgumentError(
            "--data: too many values",
            got=" ".join(names),
            allowed="one data set, one folder of images, or .npy files",
        )
    if size is not None:
        images = _resized(images, size)
    batches: Any = images.split(BATCH)
    if labels is not None:
        batches = list(zip(batches, labels.split(BATCH), strict=True))
    shape = "x".join(map(str, (2, *images.shape[1:])))
    return DiagnosisData(batches, about, True, shape)


def random_data(
    reference: str, model: "nn.Module", inputs: list[str] | None, examples: int
) -> DiagnosisData:
    """Return random inputs, if the user names no data.

    Args:
        reference: The model's name on the command line.
        model: The model.
        inputs: The values of ``--input``.
        examples: How many inputs to use at most.
    """
    from gatewise.analysis import plural
    from gatewise.cli.options.model_options import example_for

    count = min(examples, MOST_RANDOM)
    example = example_for(reference, model, inputs, rows=count)
    about = f"{plural(count, 'random input')} (no --data given)"
    return DiagnosisData([example], about, False, "")


def _from_set(
    name: str, folder: str | None, size: int | None, examples: int
) -> "tuple[Tensor, Tensor | None, str]":
    """Return a random sample of test images, normalised, with labels and a description."""
    import torch

    from gatewise.data import load

    options: dict[str, Any] = {}
    if Path(name).is_dir():
        folder = name
        name = "image_folder"
        if size is not None:
            options["size"] = size
    data = load(name, folder=None if folder is None else Path(folder), **options)
    # The same sample on every call, and not the first images, which may be sorted by class.
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))
    split = data.test.take(order[:examples])
    scaled = split.images.float() / (255 if split.images.dtype == torch.uint8 else 1)
    mean = torch.tensor(data.mean).reshape(1, -1, 1, 1)
    std = torch.tensor(data.std).reshape(1, -1, 1, 1)
    labels = split.labels if data.classes else None
    about = (
        f"{len(split):,} of {len(data.test):,} test images of {data.name}, "
        "normalised to mean 0 and standard deviation 1 per channel"
    )
    return (scaled - mean) / std, labels, about


def _from_arrays(paths: list[Path], examples: int) -> "tuple[Tensor, Tensor | None, str]":
    """Return the rows of the arrays. Bytes are divided by 255, other numbers stay."""
    import torch

    from gatewise.analysis import plural

    tensors = []
    count = 0
    for path in paths:
        rows = _array(path)[: examples - count]  # the file is mapped: only these rows are read
        tensor = torch.from_numpy(rows.copy())
        tensors.append(tensor.float() / 255 if tensor.dtype == torch.uint8 else tensor)
        count += len(rows)
    if len({(tensor.shape[1:], tensor.dtype) for tensor in tensors}) > 1:
        pairs = zip(paths, tensors, strict=True)
        shapes = ", ".join(f"{path.name} {tuple(tensor.shape)}" for path, tensor in pairs)
        raise ArgumentError("--data: the arrays differ in shape or type", got=shapes)
    whole = torch.cat(tensors)
    if whole.dtype == torch.float64:
        whole = whole.float()
    names = ", ".join(path.name for path in paths)
    return whole, None, f"{plural(len(whole), 'input')} of {names}, not normalised"


def _array(path: Path) -> Any:
    """Open a ``.npy`` file without reading it into memory. Pickled objects are refused."""
    import numpy as np

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as problem:
        raise FileError(
            "--data: the file cannot be read", got=str(path), allowed="an array of numbers"
        ) from problem
    except ValueError as problem:
        raise ArgumentError(
            f"--data: the file is not an array of numbers ({problem})", got=str(path)
        ) from None
    if array.ndim < 2 or array.dtype.kind not in "fiub" or not len(array):
        raise ArgumentError(
            f"--data: {path.name} must hold rows of inputs",
            got=f"{array.shape} of {array.dtype}",
            allowed="(n, ...) of numbers",
        )
    return array


def _resized(images: "Tensor", size: int) -> "Tensor":
    """Return images of ``size`` by ``size`` pixels."""
    from torch.nn.functional import interpolate

    if not 1 <= size <= LARGEST_SIDE:
        raise ArgumentError(
            "--size: must be a side in pixels", got=size, allowed=f"1 to {LARGEST_SIDE}"
        )
    if images.dim() != 4 or not images.is_floating_point():
        raise ArgumentError(
            "--size: only images can be resized", got=f"{size} for {tuple(images.shape)}"
        )
    if images.shape[-2:] == (size, size):
        return images
    return interpolate(images, (size, size), mode="bilinear", antialias=True)
