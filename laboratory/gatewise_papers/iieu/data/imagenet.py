"""ImageNet in folders of classes: to train on random crops of whole images.

Note [Whole images]. A random resized crop of an image that is already cut to a square never has the
pixels beside the square. Training images are therefore cut out of the decoded file by the window
that is drawn for the size of that file, and scaled with the image library, as is usual. Where no
random resized crop is asked for, and in the test, they are the squares of ``image_folder``.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from gatewise.data import (
    Augment,
    DataSet,
    ResizedCrop,
    StreamedSplit,
    decode_image,
    load,
    register_data_set,
)
from gatewise.data.streams import rgb_row

SIZE = 256
CLASSES = 1000


@dataclass(frozen=True, eq=False)
class WholeImages(StreamedSplit):
    """A streamed split whose random resized crops are cut out of the whole images."""

    def augmented(self, augment: Augment, *, seed: int, epoch: int, index: Tensor) -> Tensor:
        """Return some images as they are in an epoch, float32; see Note [Whole images].

        Args:
            augment: how they are changed.
            seed: of the run.
            epoch: number of the epoch.
            index: (n) the places of the images.
        """
        crop = augment.random_resized_crop
        if crop is None or not len(index):
            return super().augmented(augment, seed=seed, epoch=epoch, index=index)
        cut = []
        for place in index:
            path = self.images.paths[int(place)]
            cut.append(_cut(path, crop, seed=seed, epoch=epoch, index=place[None]))
        rest = replace(augment, random_resized_crop=None)
        return rest.apply(torch.stack(cut), seed=seed, epoch=epoch, index=index)


@register_data_set(
    "imagenet",
    title="ImageNet, random crops of whole images",
    home="https://image-net.org",
    fetch="fetch ILSVRC2012 from image-net.org and unpack it as train/CLASS and val/CLASS in the "
    "data folder",
    licence="see its publisher's page: for research",
    sizes=None,
    published_sizes=(1_281_167, 50_000),
    classes=CLASSES,
    shape=(3, SIZE, SIZE),
    choices=True,
)
def imagenet(*, folder: str | Path | None = None, size: int = SIZE) -> DataSet:
    """The images below ``folder``, read from their files in every epoch.

    Args:
        folder: has the images, in the layout of ``image_folder``.
        size: of the squares that a test cuts its centre out of; the shorter side of an image is
            scaled to it.
    """
    data = load("image_folder", folder=folder, size=size, stream=True)
    train = WholeImages(data.train.images, data.train.labels)
    return replace(data, name="imagenet", train=train)


def _cut(path: Path, crop: ResizedCrop, *, seed: int, epoch: int, index: Tensor) -> Tensor:
    """Return a random part of an image as a square: (3, size, size), uint8."""
    image = decode_image(path)
    from PIL import Image  # after the error that says how to install it

    drawn = crop.windows(image.height, image.width, seed=seed, epoch=epoch, index=index)
    top, left, tall, wide = (int(number) for number in drawn)
    part = image.crop((left, top, left + wide, top + tall))
    return rgb_row(part.resize((crop.size, crop.size), Image.Resampling.BILINEAR))
