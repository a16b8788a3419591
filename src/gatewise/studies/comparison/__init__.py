"""gatewise.studies.comparison."""

from gatewise.studies.comparison.own_compare import compare as compare
from gatewise.studies.comparison.own_model import AS_IT_IS as AS_IT_IS
from gatewise.studies.comparison.own_model import OwnUnit as OwnUnit
from gatewise.studies.comparison.own_model import own_model as own_model
from gatewise.studies.comparison.own_model import read_recipe as read_recipe
from gatewise.studies.comparison.own_model import variants as variants
