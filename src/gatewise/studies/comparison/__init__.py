"""``gw.compare``: units compared in a model of the user."""

from gatewise.studies.comparison.compare_units import compare as compare
from gatewise.studies.comparison.user_models import AS_IT_IS as AS_IT_IS
from gatewise.studies.comparison.user_models import UserUnit as UserUnit
from gatewise.studies.comparison.user_models import read_recipe as read_recipe
from gatewise.studies.comparison.user_models import user_model as user_model
from gatewise.studies.comparison.user_models import variants as variants
