"""How images become the input of a network: size, range, order of channels, mean and deviation.

A network gives useful numbers only for images that are prepared as in its training. The libraries
of networks say how: timm in the model's configuration, torchvision next to its weights, Hugging
Face in ``preprocessor_config.json``. All three are read as data and no code of theirs is run.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError, FileError
from gatewise.files import show

LARGEST_SIDE = 4096  # pixels
LARGEST_CONFIG = 1_000_000  # bytes
HUGGING_FACE_FILE = "preprocessor_config.json"
# Numbers of pillow's filters, which Hugging Face writes.
FILTERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


@dataclass(frozen=True)
class Preprocessing:
    """Steps in their order: resize and crop, scale, reverse the channels, subtract, divide.

    Attributes:
        source: Where the steps come from, for a sentence: ``as timm says for resnet18``.
        known: Whether the network's training is known to have used them.
        size: Height and width of the result. ``None`` leaves images as they are.
        resize: The shorter side before the crop to ``size``. ``None``: just large enough. With
            ``stretch``, it is not used.
        stretch: Whether images are resized to ``size`` without a crop.
        filter: The name of pillow's filter.
        scale: The value of a full pixel: 1 or 255.
        bgr: Whether blue comes first.
        mean: What is subtracted, for every channel, or one number for all.
        std: What the result is divided by.
        function: A function from an image of pillow to a tensor, instead of all other steps.
    """

    source: str
    known: bool = True
    size: tuple[int, int] | None = None
    resize: int | None = None
    stretch: bool = False
    filter: str = "bilinear"
    scale: float = 1.0
    bgr: bool = False
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    function: Callable[[Any], Any] | None = None

    @property
    def text(self) -> str:
        """All steps in words."""
        if self.function is not None:
            return f"prepared by {self.source}"
        words = [f"scaled to 0 .. {self.scale:g}"]
        if self.bgr:
            words.append("blue channel first")
        if any(self.mean):
            words.append(f"mean {_numbers(self.mean)} subtracted")
        if set(self.std) != {1.0}:
            words.append(f"divided by {_numbers(self.std)}")
        if self.size is not None:
            how = "stretched" if self.stretch else "cropped"
            words.insert(0, f"{how} to {self.size[0]} x {self.size[1]} pixels")
        return f"{', '.join(words)} ({self.source})"


def model_preprocessing(
    kind: str,
    name: str,
    model: Any,
    options: Mapping[str, Any],
) -> Preprocessing | None:
    """Return the preprocessing that the library of a model states, or ``None``.

    Args:
        kind: The library: ``timm``, ``torchvision``, ``hf`` or any other word.
        name: The name of the model there; for ``hf`` the path of its configuration.
        model: The model. One of timm has its configuration, whoever built it.
        options: The arguments with which the model was built.
    """
    if kind == "torchvision":
        return _of_torchvision(name, options.get("weights"))
    if kind == "hf":
        path = Path(name).parent / HUGGING_FACE_FILE
        return _of_hugging_face(path) if path.is_file() else None
    config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    return _of_timm(config) if isinstance(config, Mapping) else None


def _of_timm(config: Mapping[str, Any]) -> Preprocessing | None:
    """Return the steps in the configuration that models of timm carry."""
    if "mean" not in config or "std" not in config:
        return None
    size = config.get("input_size")
    side = None if size is None else (int(size[1]), int(size[2]))
    share = config.get("crop_pct") or 1.0
    return Preprocessing(
        source=f"the configuration of timm's {config.get('architecture', 'model')}",
        size=side,
        resize=None if side is None else int(min(side) / share),
        stretch=config.get("crop_mode") == "squash",
        filter=str(config.get("interpolation") or "bicubic"),
        mean=tuple(map(float, config["mean"])),
        std=tuple(map(float, config["std"])),
    )


def _of_torchvision(name: str, weights: Any) -> Preprocessing | None:
    """Return the steps next to the weights of torchvision: those named, else the default ones."""
    from torchvision import models  # the caller has built the model with it

    known: Any = models.get_model_weights(name)
    chosen = known.DEFAULT
    for entry in known:
        if str(weights).rpartition(".")[2] == entry.name:
            chosen = entry
    steps = chosen.transforms()
    if not hasattr(steps, "crop_size"):  # not for a classifier
        return None
    side = int(steps.crop_size[0])
    return Preprocessing(
        source=f"torchvision's transform of {chosen}",
        size=(side, side),
        resize=int(steps.resize_size[0]),
        filter=str(steps.interpolation.value),
        mean=tuple(map(float, steps.mean)),
        std=tuple(map(float, steps.std)),
    )


def _of_hugging_face(path: Path) -> Preprocessing:
    """Return the steps of a Hugging Face image processor, from its configuration."""
    try:
        if path.stat().st_size > LARGEST_CONFIG:
            raise FileError("the configuration is too large", got=show(path))
        config = json.loads(path.read_text("utf-8"))
        if not isinstance(config, dict):
            raise ValueError("it is not a JSON object")
        return _hugging_face_steps(config, path)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as problem:
        if isinstance(problem, FileError):
            raise
        raise FileError(
            "the configuration of the image processor cannot be used",
            got=f"{show(path)}: {problem}",
            fix="state the preprocessing: mean=NUMBERS, std=NUMBERS, scale=NUMBER, size=PIXELS",
        ) from problem


def _hugging_face_steps(config: Mapping[str, Any], path: Path) -> Preprocessing:
    """Return the steps of a configuration: a size is a shorter side, or height and width."""
    size = _hugging_face_size(config.get("size")) if config.get("do_resize", True) else None
    crop = _hugging_face_size(config.get("crop_size")) if config.get("do_center_crop") else None
    normalize = config.get("do_normalize", True) and config.get("image_mean") is not None
    factor = float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0
    shorter = size if isinstance(size, int) or size is None else min(size)
    final = size if crop is None else crop
    return Preprocessing(
        source=f"the image processor in {path.name}",
        size=(final, final) if isinstance(final, int) else final,
        resize=shorter,
        stretch=crop is None and isinstance(size, tuple),
        filter=FILTERS.get(config.get("resample", 2), "bilinear"),
        scale=255 * factor,
        mean=tuple(map(float, config["image_mean"])) if normalize else (0.0,),
        std=tuple(map(float, config["image_std"])) if normalize else (1.0,),
    )


def _hugging_face_size(size: Any) -> int | tuple[int, int] | None:
    """Return a side in pixels, or height and width."""
    if size is None:
        return None
    if isinstance(size, int):
        return size
    if "shortest_edge" in size:
        return int(size["shortest_edge"])
    return int(size["height"]), int(size["width"])


def prepare_images(images: Sequence[Any], steps: Preprocessing) -> Tensor:
    """Return images as one tensor (n, channels, height, width).

    Args:
        images: Images of pillow.
        steps: What to do with them.

    Raises:
        ArgumentError: The images differ in size, or the function does not return tensors.
    """
    if steps.function is not None:
        return _stack([_call(steps.function, image) for image in images])
    tensors = []
    for image in images:
        tensors.append(_pixels(_resized(image, steps)))
    return normalize_images(_stack(tensors).float() / 255, steps)


def normalize_images(x: Tensor, steps: Preprocessing) -> Tensor:
    """Scale, reorder and normalise images (n, channels, ...) with values from 0 to 1."""
    x = x * steps.scale
    if steps.bgr:
        if x.shape[1] != 3:
            raise ArgumentError("bgr: the images have no three channels", got=tuple(x.shape))
        x = x.flip(1)
    for name, values in (("mean", steps.mean), ("std", steps.std)):
        if len(values) not in (1, x.shape[1]):
            raise ArgumentError(
                f"{name}: needs one number, or one for every channel",
                got=_numbers(values),
                allowed=f"1 or {x.shape[1]} numbers",
            )
    shape = (1, -1, *[1] * (x.dim() - 2))
    return (x - torch.tensor(steps.mean).reshape(shape)) / torch.tensor(steps.std).reshape(shape)


def _resized(image: Any, steps: Preprocessing) -> Any:
    """Return an image of pillow at the size of the steps: resized, then cropped at the centre."""
    if steps.size is None:
        return image
    from PIL import Image

    method = getattr(Image.Resampling, steps.filter.upper(), Image.Resampling.BILINEAR)
    height, width = steps.size
    if max(height, width) > LARGEST_SIDE or min(height, width) < 1:
        raise ArgumentError(
            "size: must be a side in pixels",
            got=steps.size,
            allowed=f"1 to {LARGEST_SIDE}",
        )
    if steps.stretch:
        return image.resize((width, height), method)
    factor = max(height / image.height, width / image.width)
    if steps.resize is not None:
        factor = max(factor, steps.resize / min(image.height, image.width))
    whole = (max(width, round(image.width * factor)), max(height, round(image.height * factor)))
    larger = image.resize(whole, method)
    left = (whole[0] - width) // 2
    top = (whole[1] - height) // 2
    return larger.crop((left, top, left + width, top + height))


def _pixels(image: Any) -> Tensor:
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.view(image.height, image.width, 3).permute(2, 0, 1)


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    shapes = sorted({tuple(tensor.shape) for tensor in tensors})
    if len(shapes) > 1:
        raise ArgumentError(
            "data: the images differ in size",
            got=", ".join(f"{shape[1]} x {shape[2]}" for shape in shapes[:3] if len(shape) == 3),
            fix="add size=PIXELS, the side that the network was trained with",
        )
    return torch.stack(list(tensors))


def _call(function: Callable[[Any], Any], image: Any) -> Tensor:
    """Return what the user's function makes of an image, as a tensor."""
    result = function(image)
    if not isinstance(result, Tensor) or result.dim() != 3 or not result.is_floating_point():
        got = (
            f"{tuple(result.shape)} of {result.dtype}"
            if isinstance(result, Tensor)
            else type(result).__name__
        )
        raise ArgumentError(
            "transform: the function must return a tensor (channels, height, width) of "
            "floating-point numbers",
            got=got,
        )
    return result


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
