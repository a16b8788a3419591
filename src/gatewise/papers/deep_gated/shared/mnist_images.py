"""MNIST, unpacked once in a process: that takes longer than an epoch of a small network."""

import os
from functools import lru_cache
from typing import Literal, TypeAlias

from gatewise.data import Split, mnist

SplitName: TypeAlias = Literal["train", "test"]


def images(split: SplitName) -> Split:
    """One split, from the folder that ``GATEWISE_DATA`` names now."""
    return _images(split, os.environ.get("GATEWISE_DATA"))


@lru_cache(maxsize=2)
def _images(split: SplitName, folder: str | None) -> Split:
    return mnist(split, folder=folder)
