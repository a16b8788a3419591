"""Augmentation does what it says to each image, whatever else is in the batch."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import ndimage
from torch.nn import functional as F

from gatewise.data import draws
from gatewise.data.images import (
    Augment,
    ResizedCrop,
    centre_crop,
    ten_crop,
    warp,
)
from gatewise.errors import ArgumentError, UnknownNameError

NORMALISE = ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))
EVERYTHING = Augment(flip=True, crop=(20, 3), shift=2, rotation=25.0, normalise=NORMALISE)
AUGMENTS = {
    "nothing": Augment(),
    "flip": Augment(flip=True),
    "shift": Augment(shift=3),
    "crop": Augment(crop=(24, 4)),
    "rotation": Augment(rotation=180.0),
    "resized": Augment(random_resized_crop=ResizedCrop(17)),
    "resized up": Augment(
        random_resized_crop=ResizedCrop(40, scale=(0.01, 0.02), ratio=(0.1, 10.0))
    ),
    "normalise": Augment(normalise=NORMALISE),
    "everything": EVERYTHING,
}


def make_images(
    n: int = 37, dtype: torch.dtype = torch.uint8, height: int = 24, width: int = 24
) -> torch.Tensor:
    images = torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8)
    return images if dtype == torch.uint8 else images.float() / 255


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", AUGMENTS)
def test_an_image_gets_the_same_bits_in_any_batch(name: str, dtype: torch.dtype):
    augment, images = AUGMENTS[name], make_images(dtype=dtype)
    index = torch.arange(len(images)) * 1001
    whole = augment.apply(images, seed=5, epoch=9, index=index)
    alone = [
        augment.apply(images[i : i + 1], seed=5, epoch=9, index=index[i : i + 1])
        for i in range(len(images))
    ]
    assert whole.dtype == torch.float32 and torch.equal(whole, torch.cat(alone))
    mixed = torch.randperm(len(images))
    assert torch.equal(
        augment.apply(images[mixed], seed=5, epoch=9, index=index[mixed].tolist()), whole[mixed]
    )


@pytest.mark.parametrize(
    "name", [name for name in AUGMENTS if name not in ("nothing", "normalise")]
)
def test_seed_epoch_and_index_each_make_a_difference(name: str):
    augment, images, index = AUGMENTS[name], make_images(), torch.arange(37)
    base = augment.apply(images, seed=0, epoch=0, index=index)
    for change in ({"seed": 1}, {"epoch": 1}, {"index": index + 1}):
        assert not torch.equal(
            base, augment.apply(images, **{"seed": 0, "epoch": 0, "index": index, **change})
        )


@pytest.mark.parametrize("name", AUGMENTS)
def test_threads_make_no_difference(name: str):
    images, before = make_images(200), torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(AUGMENTS[name].apply(images, seed=0, epoch=0, index=range(200)))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_the_images_given_are_not_changed():
    images = make_images(dtype=torch.float32)
    before = images.clone()
    EVERYTHING.apply(images, seed=0, epoch=0, index=range(37))
    assert torch.equal(images, before)


def test_half_of_the_images_are_mirrored():
    n = 10_000
    image = torch.arange(2, dtype=torch.uint8).view(1, 1, 1, 2)
    found = (
        Augment(flip=True).apply(image.expand(n, 1, 1, 2), seed=0, epoch=0, index=range(n)) * 255
    )
    mirrored = (found == torch.tensor([1.0, 0.0])).all(-1).flatten()
    assert torch.equal(mirrored, ~(found == torch.tensor([0.0, 1.0])).all(-1).flatten())
    assert abs(mirrored.sum() - n / 2) < 6 * math.sqrt(n) / 2


@pytest.mark.parametrize(
    ("augment", "size", "offsets"),
    [(Augment(crop=(6, 2)), 6, range(-2, 5)), (Augment(shift=3), 8, range(-3, 4))],
)
def test_crop_and_shift_take_every_window_equally_often(
    augment: Augment, size: int, offsets: range
):
    n = 49 * 200
    image = torch.arange(1, 65, dtype=torch.uint8).view(1, 1, 8, 8)
    found = (
        (augment.apply(image.expand(n, 1, 8, 8), seed=1, epoch=0, index=range(n)) * 255)
        .round()
        .byte()
    )
    padded = F.pad(image, (8, 8, 8, 8))[0, 0]
    windows = {
        tuple(padded[8 + top : 8 + top + size, 8 + left : 8 + left + size].flatten().tolist()): (
            top,
            left,
        )
        for top in offsets
        for left in offsets
    }
    counts = dict.fromkeys(windows.values(), 0)
    for each in found.flatten(1).tolist():
        counts[windows[tuple(each)]] += 1  # KeyError: a window that should not occur
    assert len(counts) == 49
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 48 + 6 * math.sqrt(2 * 48)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("height", "width", "by"), [(32, 32, 2), (5, 7, 4), (2, 3, 1), (1, 4, 0)])
def test_a_mirrored_border_is_that_of_numpy(height: int, width: int, by: int, dtype: torch.dtype):
    images = (torch.rand(3, 2, height, width) * 255).to(dtype)
    sides = ((0, 0), (0, 0), (by, by), (by, by))
    expected = np.pad(images.numpy(), sides, mode="reflect")
    assert np.array_equal(warp.pad(images, by, "reflect").numpy(), expected)


def test_a_border_cannot_be_mirrored_beyond_the_image():
    with pytest.raises(ArgumentError, match="cannot be mirrored that far"):
        warp.pad(torch.zeros(1, 1, 4, 4), 4, "reflect")


@pytest.mark.parametrize(("height", "width"), [(16, 16), (11, 20)])
def test_rotation_is_that_of_scipy(height: int, width: int):
    images = make_images(13, torch.float32, height, width)
    found = Augment(rotation=70.0).apply(images, seed=3, epoch=4, index=range(13))
    degrees = 70.0 * (2 * draws(torch.arange(13), 1, 3, "rotation", 4)[0] - 1)
    for n in range(13):
        wanted = ndimage.rotate(
            images[n].double().numpy(), -degrees[n].item(), axes=(1, 2), reshape=False, order=1,
            mode="grid-constant", prefilter=False,
        )  # fmt: skip
        # A coordinate in float32 is off by a few of its last bits, a pixel by at most 1.
        assert np.abs(found[n].numpy() - wanted).max() < 16 * 2**-24 * max(height, width)


def test_angles_fill_the_range_to_both_limits(monkeypatch: pytest.MonkeyPatch):
    seen = []
    monkeypatch.setattr(warp, "rotate", lambda images, degrees: seen.append(degrees) or images)
    n = 1000
    Augment(rotation=30.0).apply(torch.zeros(n, 1, 1, 1), seed=0, epoch=0, index=range(n))
    assert -30 <= seen[0].min() < -29.5 and 29.5 < seen[0].max() <= 30


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_a_resized_rectangle_is_that_of_interpolate(dtype: torch.dtype):
    images = make_images(6, dtype)
    top, left, tall, wide = (torch.tensor(each) for each in zip(*RECTANGLES, strict=True))
    found = warp.resize(images, top, left, tall, wide, 9)
    for n, (t, w, h, b) in enumerate(RECTANGLES):
        part = images[n : n + 1, :, t : t + h, w : w + b].double() / (
            255 if dtype == torch.uint8 else 1
        )
        wanted = F.interpolate(part, size=(9, 9), mode="bilinear", align_corners=False)
        # A coordinate in float32 is off by a few of its last bits, a pixel by at most 1.
        assert (found[n] - wanted[0]).abs().max() < 16 * 2**-24 * 24


RECTANGLES = [
    (0, 0, 24, 24),
    (1, 2, 9, 9),
    (23, 23, 1, 1),
    (0, 20, 24, 4),
    (3, 3, 2, 15),
    (10, 0, 7, 24),
]


def test_resized_crops_have_the_share_and_the_ratio_asked_for(monkeypatch: pytest.MonkeyPatch):
    seen = {}
    monkeypatch.setattr(
        warp, "resize", lambda images, *rectangle: seen.update(rectangle=rectangle) or images
    )
    crop = ResizedCrop(8, scale=(0.2, 0.6), ratio=(0.5, 2.0))
    n = 4000
    Augment(random_resized_crop=crop).apply(
        torch.zeros(n, 1, 100, 100), seed=0, epoch=0, index=range(n)
    )
    top, left, tall, wide, size = seen["rectangle"]
    assert size == 8 and (top >= 0).all() and (left >= 0).all()
    assert (top + tall <= 100).all() and (left + wide <= 100).all()
    area, ratio = tall * wide / 10_000, wide / tall
    assert area.min() > 0.19 and area.max() < 0.62 and ratio.min() > 0.48 and ratio.max() < 2.1
    # Crops that do not fit are drawn again, which changes the mean of the area a little: wide and
    # large is rare.
    assert abs(area.mean() - 0.4) < 0.02 and abs(ratio.log().mean()) < 0.03
    assert abs((top / (100 - tall).clamp(min=1)).mean() - 0.5) < 0.03


def test_where_no_crop_fits_the_largest_allowed_one_in_the_centre_is_taken():
    images = make_images(5, torch.float32, 10, 40)
    crop = ResizedCrop(10, scale=(1.0, 1.0), ratio=(1.0, 1.0))  # a square of area 400 is 20 high
    found = Augment(random_resized_crop=crop).apply(images, seed=0, epoch=0, index=range(5))
    assert (found - centre_crop(images, 10)).abs().max() < 16 * 2**-24 * 40
    tall = Augment(random_resized_crop=crop).apply(
        images.transpose(2, 3), seed=0, epoch=0, index=range(5)
    )
    wanted = centre_crop(images.transpose(2, 3), 10)
    assert (tall - wanted).abs().max() < 16 * 2**-24 * 40


def test_one_step_does_not_change_what_another_draws():
    images = make_images(20)
    flipped = Augment(flip=True, crop=(24, 0)).apply(images, seed=2, epoch=1, index=range(20))
    assert torch.equal(Augment(flip=True).apply(images, seed=2, epoch=1, index=range(20)), flipped)


def test_bytes_become_numbers_up_to_one_and_are_normalised():
    images = make_images(4)
    mean, std = (torch.tensor(each, dtype=torch.float64).view(3, 1, 1) for each in NORMALISE)
    found = Augment(normalise=NORMALISE).apply(images, seed=0, epoch=0, index=range(4))
    assert (found - (images.double() / 255 - mean) / std).abs().max() < 16 * 2**-24
    assert (
        Augment().apply(
            torch.full((1, 1, 1, 1), 255, dtype=torch.uint8), seed=0, epoch=0, index=[0]
        )
        == 1.0
    )
    assert torch.equal(
        Augment().with_normalise(*NORMALISE).apply(images, seed=0, epoch=0, index=range(4)), found
    )


def test_plain_is_what_a_test_sees():
    images = make_images(4)
    assert torch.equal(
        EVERYTHING.plain(images), Augment(normalise=NORMALISE).plain(centre_crop(images, 20))
    )
    assert torch.equal(Augment(crop=(21, 4)).plain(images), centre_crop(images, 21).float() / 255)
    assert torch.equal(Augment(crop=(28, 4)).plain(images)[:, :, 2:-2, 2:-2], images.float() / 255)
    assert Augment(random_resized_crop={"size": 16}).plain(images).shape == (4, 3, 16, 16)
    assert torch.equal(Augment(flip=True, shift=2).plain(images), images.float() / 255)


def test_it_is_plain_data():
    fields = dataclasses.asdict(
        Augment(crop=[20, 3], normalise=[[0.5], [1]], random_resized_crop=None)
    )
    assert fields["crop"] == (20, 3) and fields["normalise"] == ((0.5,), (1.0,))
    resized = Augment(random_resized_crop={"size": 8, "scale": [0.5, 1]})
    assert (
        Augment(**dataclasses.asdict(resized))
        == resized
        == Augment(random_resized_crop=ResizedCrop(8, (0.5, 1.0)))
    )
    assert hash(resized) == hash(Augment(random_resized_crop=ResizedCrop(8, (0.5, 1.0))))


@pytest.mark.parametrize(
    "wrong",
    [
        {"flip": 1},
        {"shift": -1},
        {"shift": 1.5},
        {"shift": True},
        {"rotation": -1.0},
        {"rotation": 181.0},
        {"rotation": math.nan},
        {"rotation": "9"},
        {"crop": 32},
        {"crop": (0, 4)},
        {"crop": (32, -1)},
        {"crop": "32"},
        {"crop": (32,)},
        {"normalise": (0.5, 0.5)},
        {"normalise": ((0.5,), (0.0,))},
        {"normalise": ((0.5,), (0.1, 0.2))},
        {"normalise": ((math.inf,), (1.0,))},
        {"random_resized_crop": 8},
        {"random_resized_crop": {"size": 0}},
        {"random_resized_crop": {"sizes": 8}},
        {"random_resized_crop": {"size": 8, "scale": (1, 2)}},
        {"random_resized_crop": {"size": 8, "ratio": (2, 1)}},
        {"random_resized_crop": {"size": 8, "ratio": (0, 1)}},
        {"random_resized_crop": {"size": 8, "scale": 1}},
        {"crop": (8, 0), "random_resized_crop": {"size": 8}},
    ],
)
def test_an_impossible_description_is_refused_by_name(wrong: dict):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Augment(**wrong)


def test_an_unknown_step_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="unheard"):
        Augment(steps={"unheard": 1})


@pytest.mark.parametrize(
    ("images", "index", "said"),
    [
        (torch.zeros(3, 8, 8), [0], "images"),
        (torch.zeros(2, 3, 8, 8).double(), [0, 1], "images"),
        ("images", [0], "images"),
        (torch.zeros(2, 3, 8, 8), [0], "index"),
        (torch.zeros(2, 3, 8, 8), [0.5, 1], "index"),
        (torch.zeros(2, 3, 8, 8), [-1, 0], "index"),
        (torch.zeros(2, 3, 8, 8), "ab", "index"),
        (torch.zeros(1, 3, 8, 8), [1j], "index"),
        (torch.zeros(1, 3, 0, 8), [0], "images"),
        (torch.zeros(2, 1, 8, 8), [0, 1], "normalise"),
    ],
)
def test_wrong_images_and_indices_are_refused(images: object, index: object, said: str):
    with pytest.raises(ArgumentError, match=said):
        Augment(normalise=NORMALISE).apply(images, seed=0, epoch=0, index=index)


def test_a_crop_larger_than_the_padded_image_is_refused():
    with pytest.raises(ArgumentError, match="size"):
        Augment(crop=(32, 3)).apply(make_images(1), seed=0, epoch=0, index=[0])


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_an_empty_batch_stays_empty(augment: Augment):
    assert len(augment.apply(make_images(0), seed=0, epoch=0, index=[])) == 0


def test_ten_crops_are_the_corners_the_centre_and_their_mirror_images():
    images = torch.arange(2 * 5 * 6).view(2, 1, 5, 6).byte()
    found = ten_crop(images, 3)
    assert found.shape == (2, 10, 1, 3, 3)
    for n, (top, left) in enumerate([(0, 0), (0, 3), (2, 0), (2, 3), (1, 1)]):
        part = images[:, :, top : top + 3, left : left + 3]
        assert torch.equal(found[:, n], part) and torch.equal(found[:, n + 5], part.flip(-1))
    assert torch.equal(centre_crop(images, 5)[0, 0, 0], torch.arange(5).byte())


@pytest.mark.parametrize("size", [0, 6, 2.0])
def test_a_crop_that_does_not_fit_is_refused(size: object):
    for crop in (centre_crop, ten_crop):
        with pytest.raises(ArgumentError, match="size"):
            crop(torch.zeros(1, 1, 5, 8), size)
