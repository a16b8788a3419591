"""Drawn shapes on textured backgrounds: masks to segment and boxes to detect.

Note [How shapes are drawn]. Everything is arithmetic of integers, on the numbers of a generator
that is seeded with the number of the image. An image has one to ``MOST`` objects, each of one of
six shapes, with its own size, place, rotation, colour and stripes. Rotations are those of
Pythagorean triples, which are exact. Objects are placed from front to back: one of which less than
three fifths would be visible is left out. Its box surrounds what is visible. The background is a
smooth random texture with stripes, and every pixel has noise. Training and test images have
different numbers, so that fewer images are the beginning of more.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gatewise.checks import check_count
from gatewise.data import (
    DETECTION,
    SEGMENTATION,
    DataSet,
    Split,
    assemble,
    generator,
    register_data_set,
)
from gatewise.data.seeds import below, check_key
from gatewise.errors import ArgumentError
from gatewise_papers.iieu.data.labels import AREA, CLASS, COLUMNS, NO_OBJECT, SCALE

SHAPES = ("disc", "ring", "square", "bar", "triangle", "cross")
BACKGROUND = 0  # in masks; shape k is class k + 1
MOST = 4
TRIPLES = ((1, 0, 1), (4, 3, 5), (3, 4, 5), (12, 5, 13), (5, 12, 13), (15, 8, 17), (8, 15, 17))
FIRST_TEST = 1 << 31  # the number of the first test image
MOST_IMAGES = 1_000_000
SIZES = (32, 1024)  # smallest and largest side of an image
CHUNK = 64  # images drawn at once
CELL = 16  # pixels between the points of the smooth texture
DRAWS = 16  # for each object and for the background
VISIBLE = (3, 5)  # the smallest visible share of an object


@dataclass(frozen=True, eq=False)
class DrawnShapes:
    """Some drawn images; see Note [How shapes are drawn].

    Attributes:
        images: (n, 3, size, size), uint8.
        masks: (n, size, size), uint8: 0 for the background, k + 1 for shape k.
        boxes: (n, 4, 8), float32; see Note [Labels of boxes].
    """

    images: Tensor
    masks: Tensor
    boxes: Tensor


def draw_shapes(count: int, *, size: int = 64, seed: int = 0, first: int = 0) -> DrawnShapes:
    """Draw images of shapes.

    Args:
        count: number of images.
        size: height and width in pixels.
        seed: of the random numbers.
        first: the number of the first image.
    """
    check_count("data", "count", count, most=MOST_IMAGES)
    if type(size) is not int or not SIZES[0] <= size <= SIZES[1]:
        raise ArgumentError(
            "size must be the side of the drawn images in pixels",
            got=size,
            allowed=f"{SIZES[0]} .. {SIZES[1]}",
        )
    check_key("seed", seed)
    numbers = torch.arange(first, first + count)
    parts = [_draw(chunk, size, seed) for chunk in numbers.split(CHUNK)]
    return DrawnShapes(
        torch.cat([part.images for part in parts]),
        torch.cat([part.masks for part in parts]),
        torch.cat([part.boxes for part in parts]),
    )


LICENCE = "none needed: computed here"
HOME = "Note [How shapes are drawn] in gatewise.data"


@register_data_set(
    "shapes_segmentation",
    title="Drawn shapes on textures, with a class for every pixel",
    home=HOME,
    licence=LICENCE,
    sizes=(1000, 250),
    classes=len(SHAPES) + 1,
    shape=(3, 64, 64),
    task=SEGMENTATION,
)
def shapes_segmentation(
    *,
    folder: str | Path | None = None,
    train: int = 1000,
    test: int = 250,
    size: int = 64,
    seed: int = 0,
) -> DataSet:
    """Shapes to segment: the background and six shapes are seven classes.

    Args:
        folder: not used.
        train: number of training images.
        test: number of test images.
        size: height and width in pixels.
        seed: of the random numbers.
    """
    drawn = draw_shapes(train, size=size, seed=seed)
    tested = draw_shapes(test, size=size, seed=seed, first=FIRST_TEST)
    return assemble(
        "shapes_segmentation",
        Split(drawn.images, drawn.masks),
        Split(tested.images, tested.masks),
        classes=len(SHAPES) + 1,
    )


@register_data_set(
    "shapes_detection",
    title="Drawn shapes on textures, with a box and a class for each",
    home=HOME,
    licence=LICENCE,
    sizes=(1000, 250),
    classes=len(SHAPES),
    shape=(3, 64, 64),
    task=DETECTION,
)
def shapes_detection(
    *,
    folder: str | Path | None = None,
    train: int = 1000,
    test: int = 250,
    size: int = 64,
    seed: int = 0,
) -> DataSet:
    """Shapes to detect: the same images as ``shapes_segmentation``, with boxes.

    Args:
        folder: not used.
        train: number of training images.
        test: number of test images.
        size: height and width in pixels.
        seed: of the random numbers.
    """
    drawn = draw_shapes(train, size=size, seed=seed)
    tested = draw_shapes(test, size=size, seed=seed, first=FIRST_TEST)
    return assemble(
        "shapes_detection",
        Split(drawn.images, drawn.boxes),
        Split(tested.images, tested.boxes),
        classes=len(SHAPES),
    )


def _draw(numbers: Tensor, size: int, seed: int) -> DrawnShapes:
    """Draw the images of these numbers."""
    random = _random(numbers, seed, "picture", DRAWS * (MOST + 1)).view(MOST + 1, DRAWS, -1)
    background = _background(numbers, random[MOST], size, seed)
    pixels = background
    masks = torch.zeros(len(numbers), size, size, dtype=torch.int64)
    boxes = torch.zeros(len(numbers), MOST, COLUMNS)
    boxes[..., CLASS] = NO_OBJECT
    boxes[..., SCALE] = 1
    wanted = 1 + below(random[MOST, 0], MOST)
    base = _colours(random[MOST])
    for place in range(MOST):
        kind = below(random[place, 0], len(SHAPES))
        inside = _inside(random[place], kind, size) & (wanted > place).view(-1, 1, 1)
        free = inside & (masks == BACKGROUND)
        seen, whole = free.sum((1, 2)), inside.sum((1, 2))
        kept = (VISIBLE[1] * seen >= VISIBLE[0] * whole) & (seen > 0)
        free &= kept.view(-1, 1, 1)
        masks = torch.where(free, (kind + 1).view(-1, 1, 1), masks)
        pixels = torch.where(free.unsqueeze(1), _object(random[place], base, size), pixels)
        boxes[kept, place] = _boxes(free[kept], kind[kept])
    noise = below(_random(numbers, seed, "noise", size**2), 17) - 8
    pixels = pixels + noise.t().reshape(-1, 1, size, size)
    images = pixels.clamp(0, 255).to(torch.uint8)
    return DrawnShapes(images, masks.to(torch.uint8), boxes)


def _random(numbers: Tensor, seed: int, name: str, count: int) -> Tensor:
    """Return numbers of [0, 1) that depend on seed, name and the number of the image alone.

    Shape: ``(n,) -> (count, n)``.
    """
    drawn = [
        torch.rand(count, generator=generator(seed, name, number), dtype=torch.float64)
        for number in numbers.tolist()
    ]
    return torch.stack(drawn, 1)


def _boxes(visible: Tensor, kind: Tensor) -> Tensor:
    """Return the rows of objects, one in each image, from their visible pixels."""
    rows = torch.zeros(len(visible), COLUMNS)
    size = visible.shape[-1]
    for axis, (low, high) in ((1, (0, 2)), (2, (1, 3))):  # columns hold x, rows hold y
        line = visible.any(axis).int()
        rows[:, low] = line.argmax(1).float()
        rows[:, high] = (size - line.flip(1).argmax(1)).float()
    rows[:, CLASS] = kind.float()
    rows[:, AREA] = visible.sum((1, 2)).float()
    rows[:, SCALE] = 1
    return rows


def _inside(random: Tensor, kind: Tensor, size: int) -> Tensor:
    """Return which pixels the object of each image covers, (n, size, size).

    Lengths are in half pixels, so that the centres of pixels are integers.
    """
    margin = size // 4
    centre_x = margin + below(random[1], 2 * size - 2 * margin)
    centre_y = margin + below(random[2], 2 * size - 2 * margin)
    smallest, largest = 2 * size // 7, 2 * size // 3
    radius = smallest + below(random[3], largest - smallest + 1)
    p, q, factor = torch.tensor(TRIPLES)[below(random[4], len(TRIPLES))].unbind(1)
    q = torch.where(random[5] < 0.5, -q, q)
    grid = 2 * torch.arange(size) + 1
    dx = grid.view(1, 1, -1) - centre_x.view(-1, 1, 1)
    dy = grid.view(1, -1, 1) - centre_y.view(-1, 1, 1)
    p, q, reach = (value.view(-1, 1, 1) for value in (p, q, radius * factor))
    u, v = p * dx + q * dy, p * dy - q * dx
    far, near = torch.maximum(u.abs(), v.abs()), torch.minimum(u.abs(), v.abs())
    disc = u * u + v * v <= reach * reach
    drawn = (
        disc,
        disc & (4 * (u * u + v * v) >= reach * reach),
        5 * far <= 4 * reach,
        (u.abs() <= reach) & (3 * v.abs() <= reach),
        (v.abs() <= reach) & (2 * u.abs() <= v + reach),
        (far <= reach) & (3 * near <= reach),
    )
    return torch.stack(drawn)[kind, torch.arange(len(kind))]


def _background(numbers: Tensor, random: Tensor, size: int, seed: int) -> Tensor:
    """Return smooth textures with stripes, (n, 3, size, size)."""
    points = -(-size // CELL) + 1
    heights = below(_random(numbers, seed, "texture", 3 * points**2), 49)
    lattice = heights.t().reshape(-1, 3, points, points) - 24
    place = torch.arange(size)
    cell, within = place // CELL, place % CELL
    rows = lattice[:, :, cell] * (CELL - within).view(-1, 1) + lattice[
        :, :, cell + 1
    ] * within.view(-1, 1)
    smooth = rows[..., cell] * (CELL - within) + rows[..., cell + 1] * within
    smooth = smooth.div(CELL * CELL, rounding_mode="floor")
    return _colours(random).view(-1, 3, 1, 1) + smooth + _stripes(random, size)


def _object(random: Tensor, base: Tensor, size: int) -> Tensor:
    """Return the colour and stripes of objects, (n, 3, size, size).

    Every channel is at least 80 away from the mean colour of the background, counted in a circle.
    """
    away = torch.stack([80 + below(random[place], 97) for place in (6, 7, 8)], 1)
    return ((base + away) % 256).view(-1, 3, 1, 1) + _stripes(random, size)


def _colours(random: Tensor) -> Tensor:
    """Return the mean colours of backgrounds, (n, 3)."""
    return torch.stack([below(random[place], 256) for place in (6, 7, 8)], 1)


def _stripes(random: Tensor, size: int) -> Tensor:
    """Return stripes of random direction, width and strength, (n, 3, size, size)."""
    grid = torch.arange(size)
    across, down = (below(random[place], 5) - 2 for place in (9, 10))
    width = 3 + below(random[11], 6)
    along = across.view(-1, 1, 1) * grid.view(1, 1, -1) + down.view(-1, 1, 1) * grid.view(1, -1, 1)
    bright = along.div(width.view(-1, 1, 1), rounding_mode="floor") % 2
    strength = torch.stack([below(random[place], 33) - 16 for place in (12, 13, 14)], 1)
    return (2 * bright - 1).unsqueeze(1) * strength.view(-1, 3, 1, 1)
