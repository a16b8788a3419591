"""Augmentation of images, described by plain data and drawn for every example and epoch.

Every number is a function of seed, step, epoch and index of the example; see Note [No position to
restore]. So an image is changed in the same way in any batch.

Note [Order of the steps]. Mirror, crop, shift, scale uint8 to [0, 1], steps of other packages,
rotate, normalise, steps of other packages on normalised images. What comes in from outside the
image is 0, which is black before normalising, unless ``border`` says otherwise.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from gatewise.checks import check_count, check_number
from gatewise.data.images import warp
from gatewise.data.images.crops import centre_crop, check_images, check_size
from gatewise.data.seeds import below, check_key, draws
from gatewise.errors import ArgumentError, unknown_name
from gatewise.extensions import load_extensions

ALTERNATE = "alternate"
SMALLEST = math.ulp(0.0)  # the smallest number above 0
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# Random crops until one fits, as is usual; then the largest allowed one in the centre is taken.
TRIES = 10
RESIZED = "random_resized_crop"  # the name of its random numbers
RESIZED_DRAWS = 2 * TRIES + 2


@dataclass(frozen=True)
class AugmentStep:
    """A change of images that another package adds.

    Attributes:
        check: returns the value of the option, or raises an error.
        draws: returns how many numbers of [0, 1) the value needs for each image.
        change: takes images (n, c, h, w), the numbers (draws, n) and the value, and returns images.
        normalised: whether it takes normalised images, in place of images from 0 to 1.
    """

    check: Callable[[Any], Any]
    draws: Callable[[Any], int]
    change: Callable[[Tensor, Tensor, Any], Tensor]
    normalised: bool = False


AUGMENT_STEPS: dict[str, AugmentStep] = {}  # by the name of the option


@dataclass(frozen=True)
class ResizedCrop:
    """A crop of random area and aspect ratio, resized to a square (bilinear, not antialiased).

    Attributes:
        size: the side of the square in pixels.
        scale: smallest and largest share of the image's area.
        ratio: smallest and largest width divided by height.
    """

    size: int
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _pair("random_resized_crop.scale", self.scale, most=1.0))
        object.__setattr__(self, "ratio", _pair("random_resized_crop.ratio", self.ratio))
        check_count("random_resized_crop", "size", self.size, least=1)

    def windows(
        self, height: int, width: int, *, seed: int, epoch: int, index: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return top, left, height and width of the crop of each image, (n) each.

        Args:
            height: of the images.
            width: of the images.
            seed: of the run.
            epoch: number of the epoch.
            index: (n) the place of each image in its split.
        """
        return _windows(height, width, draws(index, RESIZED_DRAWS, seed, RESIZED, epoch), self)


@dataclass(frozen=True, kw_only=True)
class Augment:
    """The changes that are made to images before they go into a network.

    The default is no change except the conversion to float32. Lists may stand for tuples. See Note
    [Order of the steps].

    Attributes:
        flip: whether half of the images are mirrored left to right; with ``"alternate"`` a random
            half in the even epochs and the other half in the odd ones.
        shift: moves an image by up to so many pixels in each direction.
        crop: ``(size, padding)``: a square of that size from anywhere in the image with that many
            black pixels around it.
        rotation: turns an image about its centre by up to so many degrees in each direction.
        random_resized_crop: a :class:`ResizedCrop`, or its fields as a mapping.
        border: what ``shift`` and ``crop`` bring in from outside the image: ``"black"`` pixels, or
            the image mirrored at its edge (``"reflect"``).
        steps: the options of ``AUGMENT_STEPS``, by name; they are kept as pairs.
        normalise: ``(mean, std)``, each with one number per channel, as in :class:`DataSet`.
    """

    flip: bool | str = False
    shift: int = 0
    crop: tuple[int, int] | None = None
    rotation: float = 0.0
    random_resized_crop: ResizedCrop | None = None
    border: str = "black"
    steps: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    normalise: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def __post_init__(self) -> None:
        if type(self.flip) is not bool and self.flip != ALTERNATE:
            allowed = f"True, False or {ALTERNATE!r}"
            raise ArgumentError("flip is not allowed", got=self.flip, allowed=allowed)
        if self.border not in warp.BORDERS:
            raise ArgumentError(
                "border is not allowed", got=self.border, allowed=" or ".join(warp.BORDERS)
            )
        check_count("augment", "shift", self.shift, least=0)
        check_number("augment", "rotation", self.rotation, least=0.0, most=180.0)
        # The dataclass is frozen; lists become tuples here.
        object.__setattr__(self, "steps", _check_steps(self.steps))
        object.__setattr__(self, "crop", _crop(self.crop))
        object.__setattr__(self, "random_resized_crop", _resized(self.random_resized_crop))
        object.__setattr__(self, "normalise", _normalise(self.normalise))
        if self.crop and self.random_resized_crop:
            raise ArgumentError(
                "crop and random_resized_crop exclude each other", fix="choose one of them"
            )

    def apply(
        self,
        images: Tensor,
        *,
        seed: int,
        epoch: int,
        index: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the augmented images, float32.

        The change of each image depends on ``seed``, ``epoch`` and its index alone. Images that do
        not change are not copied.

        Args:
            images: (n, c, height, width), uint8 or float32.
            seed: of the run.
            epoch: number of the epoch.
            index: (n) the place of each image in its split.
        """
        index = _check_index(index, check_images(images))
        check_key("seed", seed)
        check_key("epoch", epoch)

        def random(step: str, count: int) -> Tensor:
            return draws(index, count, seed, step, epoch).to(images.device)

        if self.flip:
            flipped = self.mirrored(seed=seed, epoch=epoch, index=index).to(images.device)
            images = torch.where(flipped.view(-1, 1, 1, 1), images.flip(-1), images)
        images = self._with_steps(warp.as_float(self._moved(images, random)), random)
        if self.rotation:
            [turned] = random("rotation", 1)
            images = warp.rotate(images, self.rotation * (2 * turned - 1))
        return self._with_steps(self._normalised(images), random, normalised=True)

    def mirrored(self, *, seed: int, epoch: int, index: Tensor) -> Tensor:
        """Return which images :meth:`apply` mirrors, (n,), bool, so that labels can follow.

        Args:
            seed: of the run.
            epoch: number of the epoch.
            index: (n) the place of each image in its split.
        """
        if not self.flip:
            return torch.zeros(len(index), dtype=torch.bool)
        alternates = self.flip == ALTERNATE
        [random] = draws(index, 1, seed, "flip", 0 if alternates else epoch)
        return (random < 0.5) ^ (alternates and epoch % 2 == 1)

    def plain(self, images: Tensor) -> Tensor:
        """Return the images as for a test: normalised, and cut to the size of training."""
        images = check_images(images)
        if self.crop:
            size, padding = self.crop
            images = centre_crop(
                warp.pad(images, padding, self.border), size
            )  # size may exceed the image
        elif self.random_resized_crop:
            images = centre_crop(images, self.random_resized_crop.size)
        return self._normalised(warp.as_float(images))

    def with_normalise(self, mean: Sequence[float], std: Sequence[float]) -> "Augment":
        """Return the same augmentation with these numbers to normalise by."""
        return replace(self, normalise=(tuple(mean), tuple(std)))

    def _moved(self, images: Tensor, random: Callable[[str, int], Tensor]) -> Tensor:
        """Return the images after crop and shift, in the same dtype if pixels are only moved."""
        if self.crop:
            size, padding = self.crop
            images = warp.pad(images, padding, self.border)
            height, width = check_size(images, size)
            top, left = random("crop", 2)
            top, left = below(top, height - size + 1), below(left, width - size + 1)
            images = warp.window(images, top, left, size, size)
        elif self.random_resized_crop:
            crop = self.random_resized_crop
            height, width = images.shape[-2:]
            drawn = random(RESIZED, RESIZED_DRAWS)
            top, left, tall, wide = _windows(height, width, drawn, crop)
            images = warp.resize(images, top, left, tall, wide, crop.size)
        if self.shift:
            height, width = images.shape[-2:]
            top, left = below(random("shift", 2), 2 * self.shift + 1)
            images = warp.window(
                warp.pad(images, self.shift, self.border), top, left, height, width
            )
        return images

    def _with_steps(
        self, images: Tensor, random: Callable[[str, int], Tensor], *, normalised: bool = False
    ) -> Tensor:
        """Return the images after the steps of other packages."""
        for name, value in dict(self.steps).items():
            step = AUGMENT_STEPS[name]
            if step.normalised == normalised:
                images = step.change(images, random(name, step.draws(value)), value)
        return images

    def _normalised(self, images: Tensor) -> Tensor:
        if not self.normalise:
            return images
        if len(self.normalise[0]) != images.shape[1]:
            raise ArgumentError(
                "normalise must have one number per channel",
                got=f"{len(self.normalise[0])} numbers",
                allowed=f"{images.shape[1]}, as the images have channels",
            )
        mean, std = self.normalise
        centred = images - images.new_tensor(mean).view(-1, 1, 1)
        return centred / images.new_tensor(std).view(-1, 1, 1)


def _windows(
    height: int, width: int, random: Tensor, crop: ResizedCrop
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return top, left, height and width of a window of random size in each image.

    It is the first of ``TRIES`` windows that fits; if none does, the largest one in the centre.

    Args:
        height: of the images.
        width: of the images.
        random: (2 TRIES + 2, n) numbers of [0, 1).
        crop: the limits.
    """
    low, high = crop.scale
    area = (low + (high - low) * random[:TRIES]) * (height * width)
    least, most = map(math.log, crop.ratio)
    aspect = (least + (most - least) * random[TRIES : 2 * TRIES]).exp()
    tall = (area / aspect).sqrt().round().long()
    wide = (area * aspect).sqrt().round().long()
    # (TRIES, n): which of the windows lie within the image.
    fits = (tall >= 1) & (tall <= height) & (wide >= 1) & (wide <= width)
    chosen = fits.int().argmax(0, keepdim=True)
    any_fits = fits.any(0)
    centre_height, centre_width = _largest(height, width, crop.ratio)
    tall = torch.where(any_fits, tall.gather(0, chosen)[0], centre_height)
    wide = torch.where(any_fits, wide.gather(0, chosen)[0], centre_width)
    random_top = below(random[-2], height - tall + 1)
    random_left = below(random[-1], width - wide + 1)
    top = torch.where(any_fits, random_top, (height - tall) // 2)
    left = torch.where(any_fits, random_left, (width - wide) // 2)
    return top, left, tall, wide


def _largest(height: int, width: int, ratio: tuple[float, float]) -> tuple[int, int]:
    """Return height and width of the largest window with an allowed aspect ratio."""
    if width < ratio[0] * height:
        return min(height, round(width / ratio[0])), width
    return height, min(width, round(height * ratio[1]))


def _check_steps(steps: Any) -> tuple[tuple[str, Any], ...]:
    checked = []
    for name, value in dict(steps).items():
        if name not in AUGMENT_STEPS:
            load_extensions("recipes")
        if name not in AUGMENT_STEPS:
            raise unknown_name("augmentation step", name, AUGMENT_STEPS)
        checked.append((name, AUGMENT_STEPS[name].check(value)))
    return tuple(checked)


def _check_index(index: Any, images: Tensor) -> Tensor:
    try:
        places = torch.as_tensor(index)
    except (TypeError, ValueError, RuntimeError) as problem:
        raise ArgumentError(
            "index must be the place of each image in its split", got=type(index).__name__
        ) from problem
    good = not places.numel() or (places.dtype in INTEGERS and bool(places.min() >= 0))
    if places.shape != images.shape[:1] or not good:
        raise ArgumentError(
            "index must be the place of each image in its split",
            got=f"{places.dtype} {tuple(places.shape)}",
            allowed=f"integers from 0, shape ({len(images)},)",
        )
    return places.long().cpu()


def _crop(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ArgumentError(
            "crop must be a size and a padding",
            got=value,
            allowed="(size, padding)",
        )
    size = check_count("crop", "size", value[0], least=1)
    return size, check_count("crop", "padding", value[1], least=0)


def _resized(value: Any) -> ResizedCrop | None:
    if value is None or isinstance(value, ResizedCrop):
        return value
    if not isinstance(value, Mapping) or not {"size"} <= value.keys() <= {"size", "scale", "ratio"}:
        raise ArgumentError(
            "random_resized_crop must be described by its fields",
            got=value,
            allowed="a ResizedCrop, or a mapping with size and perhaps scale and ratio",
        )
    return ResizedCrop(**value)


def _normalise(value: Any) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if value is None:
        return None
    good = isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2
    if not good or not all(isinstance(part, Sequence) for part in value):
        good = False
    if not good or len(value[0]) != len(value[1]):
        raise ArgumentError(
            "normalise must be (mean, std), each with one number per channel", got=value
        )
    mean = tuple(check_number("normalise", "mean", number) for number in value[0])
    std = tuple(check_number("normalise", "std", number, least=SMALLEST) for number in value[1])
    return mean, std


def _pair(name: str, value: Any, most: float = math.inf) -> tuple[float, float]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise ArgumentError(
            f"{name} must be the smallest and the largest",
            got=value,
            allowed="two numbers",
        )
    low, high = (
        check_number("augment", name, number, least=SMALLEST, most=most) for number in value
    )
    if low > high:
        raise ArgumentError(
            f"{name} must be the smallest and the largest",
            got=value,
            allowed="the smaller one first",
        )
    return low, high
