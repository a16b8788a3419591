"""gatewise.cli.options."""

from gatewise.cli.options.checkpoints import find_checkpoints as find_checkpoints
from gatewise.cli.options.diagnosis_data import Found as Found
from gatewise.cli.options.diagnosis_data import find_data as find_data
from gatewise.cli.options.diagnosis_data import random_data as random_data
from gatewise.cli.options.model_options import Input as Input
from gatewise.cli.options.model_options import Json as Json
from gatewise.cli.options.model_options import Model as Model
from gatewise.cli.options.model_options import Set as Set
from gatewise.cli.options.model_options import Weights as Weights
from gatewise.cli.options.model_options import key_values as key_values
from gatewise.cli.options.model_options import load_weights as load_weights
from gatewise.cli.options.model_options import model_and_example as model_and_example
from gatewise.cli.options.model_reference import load_model as load_model
