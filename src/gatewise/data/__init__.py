"""Data sets, checked against a digest before a byte of them is used, and augmentation that depends on no order."""

from gatewise.data import digits as _digits
from gatewise.data._catalogue import Source as Source
from gatewise.data._catalogue import datasets as datasets
from gatewise.data._catalogue import load as load
from gatewise.data._set import DataSet as DataSet
from gatewise.data._set import Split as Split
from gatewise.data.augment import Augment as Augment
from gatewise.data.augment import ResizedCrop as ResizedCrop
from gatewise.data.crops import centre_crop as centre_crop
from gatewise.data.crops import ten_crop as ten_crop
from gatewise.data.order import order as order

__all__ = [
    "Augment", "DataSet", "ResizedCrop", "Source", "Split", "centre_crop", "datasets", "load", "order", "ten_crop"
]  # fmt: skip
