"""Command line options, and what they name: models, weights, data and checkpoints."""

from gatewise.cli.options.checkpoints import find_checkpoints as find_checkpoints
from gatewise.cli.options.diagnosis_data import OTHER_DATA as OTHER_DATA
from gatewise.cli.options.diagnosis_data import DataRequest as DataRequest
from gatewise.cli.options.diagnosis_data import DiagnosisData as DiagnosisData
from gatewise.cli.options.diagnosis_data import find_data as find_data
from gatewise.cli.options.diagnosis_data import random_data as random_data
from gatewise.cli.options.kept_answers import KeptAnswers as KeptAnswers
from gatewise.cli.options.model_options import Input as Input
from gatewise.cli.options.model_options import Model as Model
from gatewise.cli.options.model_options import ModelOptions as ModelOptions
from gatewise.cli.options.model_options import Trust as Trust
from gatewise.cli.options.model_options import Weights as Weights
from gatewise.cli.options.model_options import key_values as key_values
from gatewise.cli.options.model_options import load_weights as load_weights
from gatewise.cli.options.model_options import model_and_example as model_and_example
from gatewise.cli.options.model_reference import load_function as load_function
from gatewise.cli.options.model_reference import load_model as load_model
from gatewise.cli.options.shared_options import DataFolder as DataFolder
from gatewise.cli.options.shared_options import DataOptions as DataOptions
from gatewise.cli.options.shared_options import Device as Device
from gatewise.cli.options.shared_options import DryRun as DryRun
from gatewise.cli.options.shared_options import Epochs as Epochs
from gatewise.cli.options.shared_options import Json as Json
from gatewise.cli.options.shared_options import RecipeChanges as RecipeChanges
from gatewise.cli.options.shared_options import recipe_lines as recipe_lines
from gatewise.cli.options.shared_options import toml_table as toml_table
