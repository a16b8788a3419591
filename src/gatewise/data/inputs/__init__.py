"""The user's own inputs in any usual file: images, arrays, Arrow tables, text and token numbers."""

from gatewise.data.inputs.array_files import read_arrays as read_arrays
from gatewise.data.inputs.arrow_folder import is_arrow_folder as is_arrow_folder
from gatewise.data.inputs.arrow_folder import read_arrow_folder as read_arrow_folder
from gatewise.data.inputs.image_files import FORMATS as FORMATS
from gatewise.data.inputs.image_files import ImageFiles as ImageFiles
from gatewise.data.inputs.image_files import decode_image as decode_image
from gatewise.data.inputs.image_files import find_images as find_images
from gatewise.data.inputs.image_files import sample_places as sample_places
from gatewise.data.inputs.preprocessing import LARGEST_SIDE as LARGEST_SIDE
from gatewise.data.inputs.preprocessing import Preprocessing as Preprocessing
from gatewise.data.inputs.preprocessing import model_preprocessing as model_preprocessing
from gatewise.data.inputs.preprocessing import normalize_images as normalize_images
from gatewise.data.inputs.preprocessing import prepare_images as prepare_images
from gatewise.data.inputs.text_files import read_text_tokens as read_text_tokens
