"""Augmentation as plain data: what may be done to an image, drawn anew for every example and epoch.

Note [The same bits in any batch]

Every number drawn is a hash of (seed, epoch, index of the example); see Note [No stream position].
What is done with it is bit-equal in any batch: pixels are moved by indexing, interpolation is plain
products and sums, each rounded by itself, and sines, cosines and exponentials come from tables of
4,096 entries, because torch computes those in vectors for most of a batch and one by one for its
rest, which need not agree in the last bit.

Note [Order of the steps]

Mirror, crop, shift, scale uint8 to [0, 1], rotate, normalise. What is moved in from outside the
image is 0, which is black before normalising.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gatewise.data.hashing import below, bits, uniform
from gatewise.data.images import warp
from gatewise.data.images.crops import centre_crop, check_images, check_size
from gatewise.errors import ArgumentError

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
TRIES = (
    10  # crops drawn until one fits, as is usual; after that the largest allowed one in the centre
)
# One row of random bits for each decision. Their numbers are part of what (seed, epoch, index)
# means: never renumber.
FLIP, CROP_TOP, CROP_LEFT, SHIFT_TOP, SHIFT_LEFT, ANGLE, AREA = range(7)
ASPECT, TOP, LEFT, DRAWS = (
    AREA + TRIES,
    AREA + 2 * TRIES,
    AREA + 2 * TRIES + 1,
    AREA + 2 * TRIES + 2,
)


@dataclass(frozen=True)
class ResizedCrop:
    """A crop of random area and aspect ratio, resized to a square of ``size`` (bilinear, without antialiasing)."""

    size: int
    scale: tuple[float, float] = (0.08, 1.0)  # smallest and largest share of the image's area
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # smallest and largest width over height

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _pair("random_resized_crop.scale", self.scale, most=1.0))
        object.__setattr__(self, "ratio", _pair("random_resized_crop.ratio", self.ratio))
        _count("random_resized_crop.size", self.size, least=1)


@dataclass(frozen=True, kw_only=True)
class Augment:
    """What is done to images on their way into a network.

    Nothing by default, but for making them float32.

    ``crop`` is (size, padding): a square of that size from anywhere in the image with that many
    black pixels around it. ``random_resized_crop`` is a :class:`ResizedCrop` or its fields as a
    mapping. ``normalise`` is (mean, std), each with one number per channel, as :class:`DataSet` has
    them. Lists do for tuples, which configuration files lack. See Note [Order of the steps].
    """

    flip: bool = False  # left and right exchanged for half of the images
    shift: int = 0  # up to so many pixels in each direction
    crop: tuple[int, int] | None = None
    rotation: float = 0.0  # up to so many degrees in each direction, about the centre
    random_resized_crop: ResizedCrop | None = None
    normalise: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def __post_init__(self) -> None:
        if type(self.flip) is not bool:
            raise ArgumentError("flip is yes or no", got=self.flip, allowed="True or False")
        _count("shift", self.shift, least=0)
        _number("rotation", self.rotation, least=0.0, most=180.0)
        for name, checked in (
            ("crop", _crop),
            ("random_resized_crop", _resized),
            ("normalise", _normalise),
        ):
            object.__setattr__(self, name, checked(getattr(self, name)))
        if self.crop and self.random_resized_crop:
            raise ArgumentError(
                "crop and random_resized_crop exclude each other", fix="choose one of them"
            )

    def apply(
        self, images: Tensor, *, seed: int, epoch: int, index: Tensor | Sequence[int]
    ) -> Tensor:
        """The images, each changed in a way that depends on ``seed``, ``epoch`` and its own index alone; float32.

        ``index`` is where each image is in its split. What needs no change is not copied.
        Shape: ``(n, c, height, width)`` uint8 or float32, and ``index`` (n), to ``(n, c, new height, new width)``.
        """
        index = _check_index(index, check_images(images))
        random = bits(index, seed=seed, stream="augment", epoch=epoch, draws=DRAWS).to(
            images.device
        )
        if self.flip:
            images = torch.where((random[FLIP] < 0).view(-1, 1, 1, 1), images.flip(-1), images)
        images = self._moved(images, random)
        images = _as_float(images)
        if self.rotation:
            images = warp.rotate(images, random[ANGLE], self.rotation)
        return self._normalised(images)

    def plain(self, images: Tensor) -> Tensor:
        """The images as for a test.

        Normalised, and cut from the centre to the size that training crops to.
        """
        images = check_images(images)
        if self.crop:
            images = centre_crop(
                warp.pad(images, self.crop[1]), self.crop[0]
            )  # the padding may be needed here too
        elif self.random_resized_crop:
            images = centre_crop(images, self.random_resized_crop.size)
        return self._normalised(_as_float(images))

    def with_normalise(self, mean: Sequence[float], std: Sequence[float]) -> "Augment":
        """The same with these numbers to normalise by."""
        return replace(self, normalise=(tuple(mean), tuple(std)))

    def _moved(self, images: Tensor, random: Tensor) -> Tensor:
        """The images after crop and shift, in the type they had if pixels are only moved."""
        if self.crop:
            size, padding = self.crop
            images = warp.pad(images, padding)
            height, width = check_size(images, size)
            top, left = (
                below(random[CROP_TOP], height - size + 1),
                below(random[CROP_LEFT], width - size + 1),
            )
            images = warp.window(images, top, left, size, size)
        elif self.random_resized_crop:
            images = _resized_crop(images, random, self.random_resized_crop)
        if self.shift:
            height, width = images.shape[-2:]
            top, left = (below(random[row], 2 * self.shift + 1) for row in (SHIFT_TOP, SHIFT_LEFT))
            images = warp.window(warp.pad(images, self.shift), top, left, height, width)
        return images

    def _normalised(self, images: Tensor) -> Tensor:
        if not self.normalise:
            return images
        if len(self.normalise[0]) != images.shape[1]:
            raise ArgumentError(
                "normalise has one number per channel",
                got=f"{len(self.normalise[0])} numbers",
                allowed=f"{images.shape[1]}, as the images have channels",
            )
        mean, std = (images.new_tensor(each).view(-1, 1, 1) for each in self.normalise)
        return (images - mean) / std


def _resized_crop(images: Tensor, random: Tensor, crop: ResizedCrop) -> Tensor:
    """A window of random size for each image.

    The first of ``TRIES`` that fits, else the largest in the centre.
    """
    height, width = images.shape[-2:]
    low, high = crop.scale
    area = (low + (high - low) * uniform(random[AREA : AREA + TRIES]).double()) * (height * width)
    aspect = warp.log_uniform(random[ASPECT : ASPECT + TRIES], crop.ratio)
    tall, wide = (area / aspect).sqrt().round().long(), (area * aspect).sqrt().round().long()
    fits = (tall >= 1) & (tall <= height) & (wide >= 1) & (wide <= width)
    chosen = fits.int().argmax(0, keepdim=True)
    any_fits = fits.any(0)
    centre_height, centre_width = _largest(height, width, crop.ratio)
    tall = torch.where(any_fits, tall.gather(0, chosen)[0], centre_height)
    wide = torch.where(any_fits, wide.gather(0, chosen)[0], centre_width)
    top = torch.where(
        any_fits, warp.below_each(random[TOP], height - tall + 1), (height - tall) // 2
    )
    left = torch.where(
        any_fits, warp.below_each(random[LEFT], width - wide + 1), (width - wide) // 2
    )
    return warp.resize(images, top, left, tall, wide, crop.size)


def _largest(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int]:
    """Height and width of the largest window with an allowed aspect ratio."""
    if width < ratio[0] * height:
        return min(height, round(width / ratio[0])), width
    return height, min(width, round(height * ratio[1]))


def _as_float(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images


def _check_index(index: Any, images: Tensor) -> Tensor:
    try:
        found = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ArgumentError(
            "index is the place of each image in its split", got=type(index).__name__
        ) from problem
    if found.shape != images.shape[:1] or (
        found.numel() and (found.dtype not in INTEGERS or found.min() < 0)
    ):
        raise ArgumentError(
            "index is the place of each image in its split",
            got=f"{found.dtype} {tuple(found.shape)}",
            allowed=f"integers from 0, shape ({len(images)},)",
        )
    return found.long().cpu()


def _crop(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ArgumentError("crop is a size and a padding", got=value, allowed="(size, padding)")
    return _count("crop: the size", value[0], least=1), _count(
        "crop: the padding", value[1], least=0
    )


def _resized(value: Any) -> ResizedCrop | None:
    if value is None or isinstance(value, ResizedCrop):
        return value
    if not isinstance(value, Mapping) or not {"size"} <= value.keys() <= {"size", "scale", "ratio"}:
        allowed = "a ResizedCrop, or a mapping with size and perhaps scale and ratio"
        raise ArgumentError(
            "random_resized_crop is described by its fields", got=value, allowed=allowed
        )
    return ResizedCrop(**value)


def _normalise(value: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if value is None:
        return None
    good = (
        isinstance(value, Sequence)
        and len(value) == 2
        and all(isinstance(each, Sequence) for each in value)
    )
    if isinstance(value, str) or not good or len(value[0]) != len(value[1]):
        raise ArgumentError("normalise is (mean, std), each with one number per channel", got=value)
    mean = tuple(_number("normalise: a mean", each, least=-math.inf) for each in value[0])
    return mean, tuple(_number("normalise: a std", each, least=math.ulp(0.0)) for each in value[1])


def _pair(name: str, value: Any, most: float = math.inf) -> tuple[float, float]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ArgumentError(
            f"{name} is the smallest and the largest", got=value, allowed="two numbers"
        )
    low, high = (_number(name, each, least=math.ulp(0.0), most=most) for each in value)
    if low > high:
        raise ArgumentError(
            f"{name} is the smallest and the largest", got=value, allowed="the smaller one first"
        )
    return low, high


def _count(name: str, value: Any, *, least: int) -> int:
    if type(value) is not int or value < least:
        raise ArgumentError(
            f"{name} is a number of pixels", got=value, allowed=f"an integer from {least}"
        )
    return value


def _number(name: str, value: Any, *, least: float, most: float = math.inf) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not least <= value <= most
        or math.isinf(value)
    ):
        allowed = (
            f"a number above 0{f', up to {most:g}' if math.isfinite(most) else ''}"
            if least > 0
            else (f"a finite number{f' from {least:g} to {most:g}' if math.isfinite(most) else ''}")
        )
        raise ArgumentError(f"{name} is out of range", got=value, allowed=allowed)
    return float(value)
