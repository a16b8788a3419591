"""The inputs of ``gatewise diagnose``: a data set, files of the user, or random numbers."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.checks import check_count, check_number
from gatewise.cli.options.model_reference import load_function, reads_bytes, split_reference
from gatewise.errors import ArgumentError, DamagedFileError, first_line
from gatewise.extensions import unknown_addition

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gatewise.data import Preprocessing

MOST_RANDOM = 100  # random inputs
BATCH = 100
OTHER_DATA = "YOUR_DATA"  # what the user replaces in a command
ROW = 128  # tokens in a row of text
STATED = "stated on the command line"
NOT_KNOWN = "how the network was trained is not known"
KINDS = "a data set, a folder of images, a Hugging Face data set, .npy, .npz or .txt files"


@dataclass(frozen=True)
class DiagnosisData:
    """The inputs of a diagnosis.

    Attributes:
        batches: The batches, with labels if there are any.
        about: One sentence on where they come from.
        real: Whether they are data, and not random numbers.
        shape: The shape of an example, as ``--input`` accepts it.
        preprocessing: How they were prepared, in words.
        known: Whether the network's training is known to have prepared them so.
    """

    batches: Any
    about: str
    real: bool
    shape: str
    preprocessing: str = ""
    known: bool = True


@dataclass(frozen=True)
class DataRequest:
    """What the command line says about the inputs.

    Attributes:
        names: The values of ``--data``.
        examples: How many inputs to use at most.
        reference: The model's name on the command line.
        network: The model.
        model_options: The arguments with which the model was built.
        folder: The folder of the data sets.
        size: The side to resize images to, in pixels.
        mean: ``--mean``, numbers with commas.
        std: ``--std``, numbers with commas.
        scale: ``--scale``, the value of a full pixel.
        bgr: Whether blue comes first.
        transform: ``file.py:FUNCTION``, which prepares an image.
        tokenizer: The file of a tokenizer, for text.
        length: Tokens in a row of text.
        next_tokens: Whether rows of text come with the next token at every place as labels.
    """

    names: list[str]
    examples: int
    reference: str
    network: "nn.Module"
    model_options: dict[str, Any]
    folder: str | None = None
    size: int | None = None
    mean: str | None = None
    std: str | None = None
    scale: float | None = None
    bgr: bool = False
    transform: str | None = None
    tokenizer: Path | None = None
    length: int = ROW
    next_tokens: bool = False

    def check(self) -> None:
        """Raise for a value that is not allowed, and for one that needs ``--data``."""
        from gatewise.data import LARGEST_SIDE

        _numbers("--mean", self.mean)
        _numbers("--std", self.std)
        if self.scale is not None:
            check_number("gatewise", "--scale", self.scale, above=0)
        if self.size is not None:
            check_count("gatewise", "--size", self.size, most=LARGEST_SIDE)
        if not self.names and len(self.options.split()) > 2:
            raise ArgumentError(
                "no --data is given, so nothing is to be prepared",
                got=self.options.partition(f"{OTHER_DATA} ")[2],
                fix="name the inputs with --data, or leave this out",
            )

    @property
    def stated(self) -> bool:
        """Whether the user says how images are prepared."""
        values = (self.mean, self.std, self.scale, self.transform)
        return self.bgr or any(value is not None for value in values)

    @property
    def options(self) -> str:
        """The options with which ``gatewise diagnose`` reads more inputs in the same way."""
        words = ["--data", OTHER_DATA]
        for flag, value in (
            ("--data-folder", self.folder),
            ("--size", self.size),
            ("--mean", self.mean),
            ("--std", self.std),
            ("--scale", self.scale),
            ("--transform", self.transform),
            ("--tokenizer", self.tokenizer),
        ):
            if value is not None:
                words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
        if self.bgr:
            words.append("--bgr")
        if self.length != ROW:
            words += ["--length", str(self.length)]
        return shlex.join(words)


def find_data(request: DataRequest, shapes: list[str] | None = None) -> DiagnosisData:
    """Return the inputs that ``--data`` names, or random ones.

    Args:
        request: What the command line says about them.
        shapes: The values of ``--input``, for random inputs.
    """
    request.check()
    if not request.names:
        return _random(request, shapes)
    paths = [Path(name) for name in request.names]
    endings = {path.suffix.lower() for path in paths}
    if endings <= {".npy", ".npz"}:
        return _from_arrays(paths, request)
    if len(paths) > 1:
        raise ArgumentError(
            "--data: too many values", got=" ".join(request.names), allowed=f"one of: {KINDS}"
        )
    if endings == {".txt"}:
        return _from_text(paths[0], request)
    if paths[0].is_dir():
        from gatewise.data import is_arrow_folder

        if is_arrow_folder(paths[0]):
            return _from_arrow(paths[0], request)
        return _from_images(paths[0], request)
    if paths[0].exists():
        raise ArgumentError(
            "--data: files of this kind cannot be read", got=request.names[0], allowed=KINDS
        )
    return _from_set(request)


def _random(request: DataRequest, shapes: list[str] | None) -> DiagnosisData:
    """Return random inputs."""
    from gatewise.analysis import plural
    from gatewise.cli.options.model_options import example_for

    count = min(request.examples, MOST_RANDOM)
    example = example_for(request.reference, request.network, shapes, rows=count)
    about = f"{plural(count, 'random input')} (no --data given)"
    return DiagnosisData([example], about, False, "")


def _preprocessing(request: DataRequest) -> "Preprocessing | None":
    """Return how images are prepared: as stated, else as the model's library says, else None."""
    from gatewise.data import Preprocessing, model_preprocessing

    if request.transform is not None:
        function = load_function(request.transform)
        return Preprocessing(request.transform, function=_named(function, request.transform))
    kind, name = split_reference(request.reference)
    steps = model_preprocessing(kind, name, request.network, request.model_options)
    if request.stated:
        steps = Preprocessing(
            STATED,
            size=None if steps is None else steps.size,
            scale=1.0 if request.scale is None else request.scale,
            bgr=request.bgr,
            mean=_numbers("--mean", request.mean) or (0.0,),
            std=_numbers("--std", request.std) or (1.0,),
        )
    if steps is not None and request.size is not None:
        steps = replace(steps, size=(request.size, request.size), resize=None)
    return steps


def _named(function: Callable[[Any], Any], name: str) -> Callable[[Any], "Tensor"]:
    """Return the user's function with errors that name it."""
    from torch import Tensor

    def transform(image: Any) -> Tensor:
        """Return an image as a tensor."""
        try:
            prepared = function(image)
        except Exception as problem:  # whatever the code of the user raises
            raise ArgumentError(
                f"--transform: {name} failed on an image",
                got=f"{type(problem).__name__}: {first_line(problem)}",
            ) from problem
        if not isinstance(prepared, Tensor) or prepared.dim() != 3:
            raise ArgumentError(
                f"--transform: {name} does not return an image",
                got=type(prepared).__name__,
                allowed="a tensor (channels, height, width)",
            )
        return prepared

    return transform


def _numbers(flag: str, text: str | None) -> tuple[float, ...]:
    """Return the numbers of an option, which are separated by commas."""
    if text is None:
        return ()
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    finite = all(abs(number) < float("inf") for number in numbers)
    if not numbers or not finite or (flag == "--std" and min(numbers) <= 0):
        above = " above 0" if flag == "--std" else ""
        raise ArgumentError(
            f"{flag}: needs numbers{above} with commas between them",
            got=text,
            fix=f"{flag} 0.485,0.456,0.406",
        )
    return numbers


def _prepared(images: list[Any], request: DataRequest) -> "tuple[Tensor, str, bool]":
    """Return images of pillow as a tensor, how they were prepared, and whether that is known."""
    from gatewise.data import Preprocessing, prepare_images

    steps = _preprocessing(request)
    if steps is not None:
        return prepare_images(images, steps), steps.text, steps.known
    side = None if request.size is None else (request.size, request.size)
    x = prepare_images(images, Preprocessing(NOT_KNOWN, known=False, size=side))
    cut = "" if side is None else f"cropped to {side[0]} x {side[1]} pixels, "
    how = f"{cut}each channel scaled to mean 0 and deviation 1 ({NOT_KNOWN})"
    return _standardized(x), how, False


def _standardized(x: "Tensor") -> "Tensor":
    """Return images with mean 0 and deviation 1 in every channel."""
    mean = x.mean((0, 2, 3), keepdim=True)
    std = x.std((0, 2, 3), keepdim=True)
    return (x - mean) / std.clamp(min=1e-6)


def _from_images(folder: Path, request: DataRequest) -> DiagnosisData:
    """Return a random sample of the images below any folder."""
    import torch

    from gatewise.analysis import plural
    from gatewise.data import decode_image, find_images, sample_places

    files = find_images(folder)
    images = []
    labels = []
    damaged = 0
    problem: DamagedFileError | None = None
    for place in sample_places(len(files.paths), len(files.paths)):
        if len(images) == request.examples:
            break
        try:
            images.append(decode_image(files.paths[place]))
        except DamagedFileError as error:
            damaged += 1
            problem = error
            continue
        if files.labels is not None:
            labels.append(files.labels[place])
    if problem is not None and not images:
        raise problem
    x, preprocessing, known = _prepared(images, request)
    about = f"{len(x):,} of {plural(len(files.paths), 'image')} below {folder / files.split}"
    if labels:
        about += f" in {plural(len(files.classes), 'class')}"
    if files.skipped + damaged:
        about += f"; {files.skipped:,} other and {damaged:,} damaged files skipped"
    return _data(x, torch.tensor(labels) if labels else None, about, preprocessing, known)


def _from_arrow(folder: Path, request: DataRequest) -> DiagnosisData:
    """Return a random sample of a Hugging Face data set."""
    import torch

    from gatewise.analysis import plural
    from gatewise.data import read_arrow_folder

    kind, values, labels = read_arrow_folder(folder, request.examples)
    about = f"of the Hugging Face data set {folder.name}"
    if kind == "text":
        return _from_text(values, request, about)
    if kind == "images":
        x, preprocessing, known = _prepared(values, request)
        return _data(x, labels, f"{plural(len(x), 'image')} {about}", preprocessing, known)
    if kind == "tokens":
        length = min(request.length, *map(len, values))
        values = torch.tensor([row[:length] for row in values])
        return _data(
            values, None, f"{plural(len(values), 'row')} of token numbers {about}", "", True
        )
    x, preprocessing, known = _prepared_arrays(values, request)
    return _data(x, labels, f"{plural(len(x), 'input')} {about}", preprocessing, known)


def _from_text(texts: Any, request: DataRequest, about: str = "") -> DiagnosisData:
    """Return rows of token numbers of a text file, or of several texts."""
    from gatewise.analysis import plural
    from gatewise.data import read_text_tokens

    tokenizer = request.tokenizer
    kind, name = split_reference(request.reference)
    if tokenizer is None and kind == "hf":
        tokenizer = Path(name).parent / "tokenizer.json"
    length = request.length + request.next_tokens  # the last token is a label only
    as_bytes = tokenizer is None and reads_bytes(request.reference, request.network)
    rows = read_text_tokens(texts, tokenizer, length, request.examples, as_bytes=as_bytes)
    where = about or f"of {texts.name}"
    labels = None
    if request.next_tokens:
        rows, labels = rows[:, :-1], rows[:, 1:]
    token = "byte" if as_bytes else "token"
    text = f"{plural(len(rows), 'row')} of {plural(rows.shape[1], token)} {where}"
    return _data(rows, labels, text, "", True)


def _from_set(request: DataRequest) -> DiagnosisData:
    """Return a random sample of the test images of a data set, with labels."""
    import torch

    from gatewise.data import datasets, load, normalize_images, sample_places

    name = request.names[0]
    if name not in datasets():
        raise unknown_addition("data", "data set, file or folder", name, datasets())
    data = load(name, folder=None if request.folder is None else Path(request.folder))
    split = data.test.take(torch.tensor(sample_places(len(data.test), request.examples)))
    if len(data.shape) == 1:  # rows of text
        labels = split.labels if request.next_tokens else None
        rows = f"{len(split):,} of {len(data.test):,} test rows of {data.name}"
        return _data(split.images.long(), labels, rows, "", True)
    images = split.images[:]  # streamed images are read here
    x = images.float() / (255 if images.dtype == torch.uint8 else 1)
    steps = _preprocessing(request) if request.stated else None
    if request.size is not None:
        x = _resized(x, request.size)
    if steps is not None and steps.function is not None:
        x = torch.stack([steps.function(image) for image in x])
    elif steps is not None:
        x = normalize_images(x, steps)
    else:
        mean = torch.tensor(data.mean).reshape(1, -1, 1, 1)
        x = (x - mean) / torch.tensor(data.std).reshape(1, -1, 1, 1)
    about = f"{len(split):,} of {len(data.test):,} test images of {data.name}"
    preprocessing = (
        "normalised to mean 0 and standard deviation 1 per channel of the training images, as "
        "gatewise trains"
    )
    # Networks of gatewise are trained so. Others may be, too.
    known = split_reference(request.reference)[0] == "gatewise"
    if steps is not None:
        preprocessing, known = steps.text, True
    return _data(x, split.labels if data.classes else None, about, preprocessing, known)


def _from_arrays(paths: list[Path], request: DataRequest) -> DiagnosisData:
    """Return the rows of the arrays. Floating-point numbers are used as they are."""
    from gatewise.analysis import plural
    from gatewise.data import read_arrays

    whole, labels = read_arrays(paths, request.examples)
    x, preprocessing, known = _prepared_arrays(whole, request)
    names = ", ".join(path.name for path in paths)
    return _data(x, labels, f"{plural(len(x), 'input')} of {names}", preprocessing, known)


def _prepared_arrays(x: "Tensor", request: DataRequest) -> "tuple[Tensor, str, bool]":
    """Return arrays as inputs, how they were prepared, and whether that is known."""
    import torch

    from gatewise.data import normalize_images

    vocabulary = getattr(getattr(request.network, "config", None), "vocab_size", None)
    if x.dim() == 2 and vocabulary is not None and not x.is_floating_point():
        return x.long(), "", True
    steps = _preprocessing(request)
    pixels = x.dtype == torch.uint8
    if pixels:
        x = x.float() / 255
    if request.size is not None:
        x = _resized(x, request.size)
    if steps is not None and (request.stated or pixels):
        if steps.function is not None:
            return torch.stack([steps.function(row) for row in x]), steps.text, True
        return normalize_images(x, steps), steps.text, True
    if pixels:
        return x, f"bytes divided by 255 ({NOT_KNOWN})", False
    return x, "numbers used as they are in the file", True


def _resized(images: "Tensor", size: int) -> "Tensor":
    """Return images of ``size`` by ``size`` pixels."""
    from torch.nn.functional import interpolate

    if images.dim() != 4 or not images.is_floating_point():
        raise ArgumentError(
            "--size: only images can be resized", got=f"{size} for {tuple(images.shape)}"
        )
    if images.shape[-2:] == (size, size):
        return images
    return interpolate(images, (size, size), mode="bilinear", antialias=True)


def _data(
    x: "Tensor", labels: "Tensor | None", about: str, preprocessing: str, known: bool
) -> DiagnosisData:
    """Return inputs in batches."""
    batches: Any = x.split(BATCH)
    if labels is not None:
        batches = list(zip(batches, labels.split(BATCH), strict=True))
    whole = "" if x.is_floating_point() else "int:"
    shape = whole + "x".join(map(str, (2, *x.shape[1:])))
    if preprocessing:
        about = f"{about}, {preprocessing}"
    return DiagnosisData(batches, about, True, shape, preprocessing, known)
