"""Data sets, read from the files as published: checked against a digest before a byte of them is used."""

from gatewise.data._published import data_folder as data_folder
from gatewise.data.mnist import LabelledImages as LabelledImages
from gatewise.data.mnist import mnist as mnist

__all__ = ["LabelledImages", "data_folder", "mnist"]
