"""All statistics of the library: intervals, verdicts, exact tests, power and claims."""

from gatewise.stats.comparison import Comparison as Comparison
from gatewise.stats.comparison import Difference as Difference
from gatewise.stats.comparison import compare_runs as compare_runs
from gatewise.stats.corrections import holm as holm
from gatewise.stats.factorial import FactorialRuns as FactorialRuns
from gatewise.stats.factorial import FactorialVerdicts as FactorialVerdicts
from gatewise.stats.factorial import Progress as Progress
from gatewise.stats.factorial import factorial_progress as factorial_progress
from gatewise.stats.factorial import grid_steps as grid_steps
from gatewise.stats.factorial import judge_factorial as judge_factorial
from gatewise.stats.factorial import judge_single_rates as judge_single_rates
from gatewise.stats.factorial import planned_steps as planned_steps
from gatewise.stats.new_examples import NewExamples as NewExamples
from gatewise.stats.power import detectable_difference as detectable_difference
from gatewise.stats.power import plan_seeds as plan_seeds
from gatewise.stats.power import safe_spread as safe_spread
from gatewise.stats.power import seeds_needed as seeds_needed
from gatewise.stats.prediction_test import p_at_most as p_at_most
from gatewise.stats.ranking import rank_trend as rank_trend
from gatewise.stats.sign_flips import permutation_p as permutation_p
from gatewise.stats.summary import finite as finite
from gatewise.stats.summary import half_width as half_width
from gatewise.stats.summary import mean as mean
from gatewise.stats.summary import standard_deviation as standard_deviation
