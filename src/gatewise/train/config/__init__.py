"""gatewise.train.config."""

from gatewise.train.config.configuration import HoldOut as HoldOut
from gatewise.train.config.configuration import Name as Name
from gatewise.train.config.configuration import Options as Options
from gatewise.train.config.configuration import RunConfig as RunConfig
from gatewise.train.config.configuration import StopRule as StopRule
from gatewise.train.config.configuration import run_config as run_config
from gatewise.train.config.recipe import Epochs as Epochs
from gatewise.train.config.recipe import Loss as Loss
from gatewise.train.config.recipe import Optimiser as Optimiser
from gatewise.train.config.recipe import Part as Part
from gatewise.train.config.recipe import Rate as Rate
from gatewise.train.config.recipe import Recipe as Recipe
from gatewise.train.config.recipe import RuleError as RuleError
from gatewise.train.config.recipe import Text as Text
from gatewise.train.config.recipe_files import FOLDER as FOLDER
from gatewise.train.config.recipe_files import CheckedOptions as CheckedOptions
from gatewise.train.config.recipe_files import changed_table as changed_table
from gatewise.train.config.recipe_files import check as check
from gatewise.train.config.recipe_files import fields_at as fields_at
from gatewise.train.config.recipe_files import find_recipe as find_recipe
from gatewise.train.config.recipe_files import parse as parse
from gatewise.train.config.recipe_files import read_recipe as read_recipe
from gatewise.train.config.recipe_files import read_text as read_text
from gatewise.train.config.recipe_files import recipes as recipes
from gatewise.train.config.schedule import Rates as Rates
from gatewise.train.config.schedule import rates as rates
