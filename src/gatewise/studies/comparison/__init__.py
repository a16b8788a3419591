"""gatewise.studies.comparison."""

from gatewise.studies.comparison.compare_units import compare as compare
from gatewise.studies.comparison.user_models import AS_IT_IS as AS_IT_IS
from gatewise.studies.comparison.user_models import OwnUnit as OwnUnit
from gatewise.studies.comparison.user_models import own_model as own_model
from gatewise.studies.comparison.user_models import read_recipe as read_recipe
from gatewise.studies.comparison.user_models import variants as variants
