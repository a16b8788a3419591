"""Random crops of whole images, in a folder of pictures that are wider or higher than square."""

import math
from pathlib import Path

import numpy
import pytest
import torch
from loops import for_each
from PIL import Image

from gatewise.data import Augment, DataSet, draws, load
from gatewise.train import read_recipe, run_config, train
from gatewise.train.loop import Batches

SIDES = ((60, 20), (20, 60), (30, 30), (200, 10))  # widths and heights
CROP = {"size": 8, "scale": (0.2, 1.0)}
TRIES = 10


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Pictures whose red is their column and whose green is their row."""
    for part, count in (("train", 8), ("val", 4)):
        for place in range(count):
            width, height = SIDES[place % len(SIDES)]
            pixels = numpy.zeros((height, width, 3), dtype=numpy.uint8)
            pixels[:, :, 0] = numpy.arange(width)
            pixels[:, :, 1] = numpy.arange(height)[:, None]
            pixels[:, :, 2] = 200 * (place % 2)
            path = tmp_path / part / "ab"[place % 2] / f"{place}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return tmp_path


def window(width: int, height: int, numbers: list[float]) -> tuple[int, int, int, int]:
    """Return left, top, width and height of a crop: try after try, in numbers of Python."""
    low, high = CROP["scale"]
    for attempt in range(TRIES):
        area = (low + (high - low) * numbers[attempt]) * width * height
        ratio = math.exp(math.log(3 / 4) + math.log(16 / 9) * numbers[TRIES + attempt])
        wide, tall = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < tall <= height:
            top, left = numbers[-2] * (height - tall + 1), numbers[-1] * (width - wide + 1)
            return math.floor(left), math.floor(top), wide, tall
    wide, tall = min(width, round(height * 4 / 3)), height
    if width < 3 / 4 * height:
        wide, tall = width, min(height, round(width * 4 / 3))
    return (width - wide) // 2, (height - tall) // 2, wide, tall


def epoch_of(data: DataSet, augment: Augment, epoch: int) -> torch.Tensor:
    return data.train.augmented(augment, seed=3, epoch=epoch, index=torch.arange(len(data.train)))


def test_training_images_are_cut_out_of_whole_images(home: Path):
    data = load("imagenet", folder=home, size=16)
    paths = [*sorted((home / "train/a").iterdir()), *sorted((home / "train/b").iterdir())]
    augment = Augment(random_resized_crop=CROP)
    fallbacks = beside = 0
    for epoch in range(6):
        found = epoch_of(data, augment, epoch)
        random = draws(torch.arange(8), 2 * TRIES + 2, 3, "random_resized_crop", epoch)
        for place, path in enumerate(paths):
            with Image.open(path) as image:
                left, top, wide, tall = window(*image.size, random[:, place].tolist())
                fallbacks += image.width == 200 and (wide, tall) == (13, 10)
                square = min(image.size)
                beside += left < (image.width - square) // 2 or top < (image.height - square) // 2
                part = image.crop((left, top, left + wide, top + tall)).resize(
                    (8, 8), Image.Resampling.BILINEAR
                )
            want = torch.from_numpy(numpy.array(part)).permute(2, 0, 1).float() / 255
            assert torch.equal(found[place], want)
    assert fallbacks and beside


def test_the_other_steps_follow_the_crop(home: Path):
    data = load("imagenet", folder=home, size=16)
    cut = epoch_of(data, Augment(random_resized_crop=CROP), 2)
    rest = {"flip": True, "normalise": ((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), "steps": {"erase": 0.5}}
    found = epoch_of(data, Augment(random_resized_crop=CROP, **rest), 2)
    want = Augment(**rest).apply(cut, seed=3, epoch=2, index=range(8))
    assert torch.equal(found, want) and not torch.equal(found, cut)


def test_an_image_is_cut_alike_in_any_batch_and_otherwise_in_another_epoch(home: Path):
    data = load("imagenet", folder=home, size=16)
    augment = Augment(random_resized_crop=CROP)
    whole = epoch_of(data, augment, 0)
    some = torch.tensor([5, 2])
    alone = data.train.augmented(augment, seed=3, epoch=0, index=some)
    assert torch.equal(alone, whole[some]) and not torch.equal(epoch_of(data, augment, 1), whole)
    batch = Batches(data.train, size=4, augment=augment, seed=3).get(0, 1)
    assert torch.equal(batch.images, whole[batch.index])
    empty = data.train.augmented(augment, seed=3, epoch=0, index=some[:0])
    assert len(empty) == 0


def test_a_test_cuts_the_centre_out_of_scaled_images(home: Path):
    data = load("imagenet", folder=home, size=16)
    squares = load("image_folder", folder=home, size=16, stream=True)
    assert torch.equal(data.test.images[:], squares.test.images[:])
    assert torch.equal(data.train.images[:], squares.train.images[:])
    plain = Augment(random_resized_crop=CROP).plain(data.test.images[:])
    assert torch.equal(plain, data.test.images[:][:, :, 4:12, 4:12].float() / 255)
    assert torch.equal(epoch_of(data, Augment(), 0), squares.train.images[:].float() / 255)


@for_each("options", [{"train": 4}, {"classes": [1, 0]}])
def test_a_part_of_the_set_is_cut_out_of_whole_images_too(home: Path, options: dict):
    data = load("imagenet", folder=home, size=16, **options)
    augment = Augment(random_resized_crop={"size": 8, "scale": (1.0, 1.0), "ratio": (3.0, 3.0)})
    wide = [path.name[0] in "04" for path in data.train.images.paths]  # 60 by 20 pixels
    found = epoch_of(data, augment, 0)[wide]
    assert len(found) and (255 * found[:, 0, :, -1] > 50).all()


def test_a_network_learns_from_it(home: Path, tmp_path: Path):
    recipe = """
        title = "crops"
        epochs = 1
        batch = 4
        optimiser = { name = "sgd", lr = 0.1 }
        schedule = { name = "constant" }
        augment = { random_resized_crop = { size = 8 } }
    """
    config = run_config(
        model="small_cnn",
        data="imagenet",
        data_options={"size": 16},
        recipe=read_recipe(recipe),
        seed=0,
    )
    result = train(config, tmp_path / "run", data=load("imagenet", folder=home, size=16))
    assert result.status == "finished"
