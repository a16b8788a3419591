"""Data sets, read from the files as published: checked against a digest before a byte of them is used."""

from gatewise.data.mnist import LabelledImages as LabelledImages
from gatewise.data.mnist import mnist as mnist

__all__ = ["LabelledImages", "mnist"]
