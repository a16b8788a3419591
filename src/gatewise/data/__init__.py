"""Data sets, checked against a digest before a byte of them is used, and augmentation that depends on no order."""

from gatewise.data import cifar as cifar
from gatewise.data import digits as digits
from gatewise.data import image_folder as image_folder
from gatewise.data import svhn as svhn
from gatewise.data import synthetic as synthetic
from gatewise.data._catalogue import Source as Source
from gatewise.data._catalogue import datasets as datasets
from gatewise.data._catalogue import load as load
from gatewise.data._set import DataSet as DataSet
from gatewise.data._set import Split as Split
from gatewise.data._state import State as State
from gatewise.data._state import state as state
from gatewise.data.augment import Augment as Augment
from gatewise.data.augment import ResizedCrop as ResizedCrop
from gatewise.data.crops import centre_crop as centre_crop
from gatewise.data.crops import ten_crop as ten_crop
from gatewise.data.mnist import mnist as mnist
from gatewise.data.order import order as order

__all__ = [
    "Augment", "DataSet", "ResizedCrop", "Source", "Split", "State",
    "centre_crop", "datasets", "load", "mnist", "order", "state", "ten_crop",
]  # fmt: skip
