"""Data sets, whose files are checked against a digest before use, and augmentation of images.

The augmentation of an image depends on no other image and on no order.
"""

from gatewise.data.availability import State as State
from gatewise.data.availability import state as state
from gatewise.data.catalogue import DETECTION as DETECTION
from gatewise.data.catalogue import EXAMPLES as EXAMPLES
from gatewise.data.catalogue import SEGMENTATION as SEGMENTATION
from gatewise.data.catalogue import Source as Source
from gatewise.data.catalogue import check_options as check_options
from gatewise.data.catalogue import datasets as datasets
from gatewise.data.catalogue import find_set as find_set
from gatewise.data.catalogue import load as load
from gatewise.data.catalogue import register_data_set as register_data_set
from gatewise.data.choice import shifted as shifted
from gatewise.data.choice import shuffled_pixels as shuffled_pixels
from gatewise.data.data_set import DataSet as DataSet
from gatewise.data.data_set import Split as Split
from gatewise.data.data_set import assemble as assemble
from gatewise.data.data_set import content_digest as content_digest
from gatewise.data.data_set import moments as moments
from gatewise.data.images import Augment as Augment
from gatewise.data.images import ResizedCrop as ResizedCrop
from gatewise.data.images import centre_crop as centre_crop
from gatewise.data.images import ten_crop as ten_crop
from gatewise.data.inputs import LARGEST_SIDE as LARGEST_SIDE
from gatewise.data.inputs import Preprocessing as Preprocessing
from gatewise.data.inputs import decode_image as decode_image
from gatewise.data.inputs import find_images as find_images
from gatewise.data.inputs import is_arrow_folder as is_arrow_folder
from gatewise.data.inputs import model_preprocessing as model_preprocessing
from gatewise.data.inputs import normalize_images as normalize_images
from gatewise.data.inputs import prepare_images as prepare_images
from gatewise.data.inputs import read_arrays as read_arrays
from gatewise.data.inputs import read_arrow_folder as read_arrow_folder
from gatewise.data.inputs import read_text_tokens as read_text_tokens
from gatewise.data.inputs import sample_places as sample_places
from gatewise.data.published import Form as Form
from gatewise.data.published import Published as Published
from gatewise.data.published import data_folder as data_folder
from gatewise.data.published import read_other as read_other
from gatewise.data.published import read_published as read_published
from gatewise.data.seeds import Name as Name
from gatewise.data.seeds import draws as draws
from gatewise.data.seeds import generator as generator
from gatewise.data.seeds import order as order
from gatewise.data.seeds import shuffled as shuffled
from gatewise.data.seeds import stream_seed as stream_seed
from gatewise.data.sets import cifar as cifar
from gatewise.data.sets import digits as digits
from gatewise.data.sets import image_folder as image_folder
from gatewise.data.sets import text as text
from gatewise.data.streams import StreamedSplit as StreamedSplit
