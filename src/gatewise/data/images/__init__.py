"""Crops and augmentation of images."""

from gatewise.data.images.augment import AUGMENT_STEPS as AUGMENT_STEPS
from gatewise.data.images.augment import Augment as Augment
from gatewise.data.images.augment import AugmentStep as AugmentStep
from gatewise.data.images.augment import ResizedCrop as ResizedCrop
from gatewise.data.images.crops import centre_crop as centre_crop
from gatewise.data.images.crops import ten_crop as ten_crop
from gatewise.data.images.warp import rotate as rotate
