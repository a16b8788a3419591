"""RandAugment and random erasing, against the image library and by counting."""

import math

import numpy as np
import pytest
import torch
from gatewise_papers.data import rand_augment as operations
from torch.nn import functional as F

from gatewise.data import Augment, draws
from gatewise.errors import ArgumentError
from gatewise.train import find_recipe

NORMALISE = ((0.4, 0.5, 0.6), (0.2, 0.25, 0.3))


def pillow(name: str, picture, signed: float):
    """One operation by the image library, at a signed magnitude from -1 to 1."""
    from PIL import Image, ImageEnhance, ImageOps

    width, height = picture.size
    move = {"resample": Image.Resampling.BILINEAR}
    factor = 1 + 0.9 * signed
    if name == "translate x":
        pixels = math.trunc(150 / 331 * width * signed)
        return picture.transform(picture.size, Image.Transform.AFFINE, (1, 0, pixels, 0, 1, 0))
    if name == "shear x":
        by = 0.3 * signed  # about the centre
        matrix = (1, by, -by * height / 2, 0, 1, 0)
        return picture.transform(picture.size, Image.Transform.AFFINE, matrix, **move)
    if name == "shear y":
        by = 0.3 * signed
        matrix = (1, 0, 0, by, 1, -by * width / 2)
        return picture.transform(picture.size, Image.Transform.AFFINE, matrix, **move)
    return {
        "identity": lambda: picture,
        "brightness": lambda: ImageEnhance.Brightness(picture).enhance(factor),
        "colour": lambda: ImageEnhance.Color(picture).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(picture).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(picture).enhance(factor),
        "posterize": lambda: ImageOps.posterize(picture, 8 - round(4 * abs(signed))),
        "solarize": lambda: ImageOps.solarize(picture, 255 * (1 - abs(signed))),
        "autocontrast": lambda: ImageOps.autocontrast(picture),
        "equalize": lambda: ImageOps.equalize(picture),
    }[name]()


PLACES = {
    "identity": 0,
    "shear x": 1,
    "shear y": 2,
    "translate x": 3,
    "brightness": 6,
    "colour": 7,
    "contrast": 8,
    "sharpness": 9,
    "posterize": 10,
    "solarize": 11,
    "autocontrast": 12,
    "equalize": 13,
}


@pytest.mark.parametrize("signed", [-0.7, 0.3, 1.0])
@pytest.mark.parametrize("name", PLACES)
def test_an_operation_is_that_of_the_image_library(name: str, signed: float):
    """Up to the rounding of its whole numbers: grey values, levels of grey, and sample places."""
    from PIL import Image

    smooth = F.interpolate(torch.rand(4, 3, 6, 5), size=(40, 30), mode="bicubic")
    images = (smooth.clamp(0, 1) * 255).round().byte()
    operation = operations.OPERATIONS[PLACES[name]]
    found = operation(images.float() / 255, torch.full((4,), signed))
    for image, ours in zip(images, found, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy())
        want = torch.from_numpy(np.array(pillow(name, picture, signed))).permute(2, 0, 1)
        gap = (255 * ours - want.float()).abs()
        assert float(gap.median()) <= 1.0 and float((gap > 4).float().mean()) < 0.06


def test_rand_augment_draws_every_operation_and_both_signs():
    images = torch.rand(2000, 3, 8, 8)
    augment = Augment(steps={"rand_augment": (1, 30)})
    changed = augment.apply(images, seed=1, epoch=2, index=range(2000))
    which, sign = draws(torch.arange(2000), 2, 1, "rand_augment", 2)
    chosen = (which * len(operations.OPERATIONS)).long()
    assert set(chosen.tolist()) == set(range(14))
    for place in range(14):
        for negative in (True, False):
            mask = (chosen == place) & ((sign < 0.5) == negative)
            signed = torch.full((int(mask.sum()),), -1.0 if negative else 1.0)
            want = operations.OPERATIONS[place](images[mask], signed)
            assert torch.equal(changed[mask], want)


def test_erasing_sets_one_rectangle_of_the_right_size_in_the_right_share_of_images():
    images = torch.ones(4000, 3, 32, 32)
    found = Augment(steps={"erase": 0.25}).apply(images, seed=3, epoch=0, index=range(4000))
    gone = found[:, 0] == 0
    assert torch.equal(found == 0, gone[:, None].expand_as(found))
    erased = gone.flatten(1).any(1)
    # 4,000 drawings with a chance of 1/4: five standard deviations.
    assert abs(int(erased.sum()) - 1000) < 5 * (4000 * 0.25 * 0.75) ** 0.5
    shares = []
    for mask in gone[erased]:
        rows, columns = mask.any(1).nonzero(), mask.any(0).nonzero()
        tall, wide = (int(each.max() - each.min()) + 1 for each in (rows, columns))
        assert int(mask.sum()) == tall * wide
        shares.append(tall * wide / 1024)
    assert 0.01 < min(shares) and max(shares) < 0.36 and max(shares) - min(shares) > 0.2


@pytest.mark.parametrize("value", [(0, 9), (2, 31), (2, -1), (2, 9.0), "29", 2, (2,)])
def test_impossible_rand_augment_is_refused(value: object):
    with pytest.raises(ArgumentError, match="rand_augment"):
        Augment(steps={"rand_augment": value})
    with pytest.raises(ArgumentError, match="erase"):
        Augment(steps={"erase": 1.5})


@pytest.mark.parametrize("steps", [{"rand_augment": (3, 20)}, {"erase": 0.7}])
def test_an_image_gets_the_same_bits_in_any_batch(steps: dict):
    augment = Augment(steps=steps, normalise=NORMALISE)
    images = torch.rand(12, 3, 24, 24)
    whole = augment.apply(images, seed=5, epoch=9, index=range(12))
    alone = [augment.apply(images[i : i + 1], seed=5, epoch=9, index=[i]) for i in range(12)]
    assert torch.equal(whole, torch.cat(alone)) and not torch.equal(
        whole, Augment(normalise=NORMALISE).apply(images, seed=5, epoch=9, index=range(12))
    )


def test_a_recipe_names_the_steps_as_keys_of_its_augmentation():
    changes = ["augment.rand_augment = [2, 9]", "augment.erase = 0.25", "augment.flip = true"]
    augment = find_recipe("adam", changes=changes).augmentation()
    assert dict(augment.steps) == {"rand_augment": (2, 9), "erase": 0.25} and augment.flip
