"""MNIST, unpacked once in a process: that takes longer than an epoch of a small network."""

from functools import lru_cache
from pathlib import Path

from gatewise.data import LabelledImages, data_folder, mnist
from gatewise.data.mnist import Split


def images(split: Split) -> LabelledImages:
    """One split, from the folder that ``GATEWISE_DATA`` names now."""
    return _images(split, data_folder())


@lru_cache(maxsize=2)
def _images(split: Split, folder: Path) -> LabelledImages:
    return mnist(split, folder=folder)
