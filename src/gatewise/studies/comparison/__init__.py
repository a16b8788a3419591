"""``gw.compare``: units compared in a model of the user."""

from gatewise.studies.comparison.choices import Choices as Choices
from gatewise.studies.comparison.choices import make_recipe as make_recipe
from gatewise.studies.comparison.compare_units import compare as compare
from gatewise.studies.comparison.compare_units import describe as describe
from gatewise.studies.comparison.compare_units import estimate_cost as estimate_cost
from gatewise.studies.comparison.compare_units import plan_comparison as plan_comparison
from gatewise.studies.comparison.compare_units import read_study as read_study
from gatewise.studies.comparison.compare_units import run_comparison as run_comparison
from gatewise.studies.comparison.costs import CostEstimate as CostEstimate
from gatewise.studies.comparison.learning_rates import rate_grid as rate_grid
from gatewise.studies.comparison.single_run import PlannedRun as PlannedRun
from gatewise.studies.comparison.single_run import plan_run as plan_run
from gatewise.studies.comparison.study import ComparisonStudy as ComparisonStudy
from gatewise.studies.comparison.study_file import presets as presets
from gatewise.studies.comparison.study_file import read_comparison as read_comparison
from gatewise.studies.comparison.tasks import TASKS as TASKS
from gatewise.studies.comparison.user_data import NamedData as NamedData
from gatewise.studies.comparison.user_data import read_data as read_data
from gatewise.studies.comparison.user_models import ORIGINAL as ORIGINAL
from gatewise.studies.comparison.user_models import BuiltIn as BuiltIn
from gatewise.studies.comparison.user_models import UserUnit as UserUnit
from gatewise.studies.comparison.user_models import user_model as user_model
from gatewise.studies.comparison.user_models import variants as variants
