"""``gw.compare``: units compared in a model of the user."""

from gatewise.studies.comparison.choices import Choices as Choices
from gatewise.studies.comparison.choices import user_recipe as user_recipe
from gatewise.studies.comparison.compare_units import compare as compare
from gatewise.studies.comparison.tasks import TASKS as TASKS
from gatewise.studies.comparison.user_data import read_data as read_data
from gatewise.studies.comparison.user_models import AS_IT_IS as AS_IT_IS
from gatewise.studies.comparison.user_models import UserUnit as UserUnit
from gatewise.studies.comparison.user_models import user_model as user_model
from gatewise.studies.comparison.user_models import variants as variants
