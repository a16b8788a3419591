"""All statistics of the library: intervals, verdicts, exact tests, power, ranks and claims."""

from gatewise.stats.comparison import Comparison as Comparison
from gatewise.stats.comparison import Difference as Difference
from gatewise.stats.comparison import compare_runs as compare_runs
from gatewise.stats.corrections import holm as holm
from gatewise.stats.new_examples import NewExamples as NewExamples
from gatewise.stats.paired import EXACT_UP_TO as EXACT_UP_TO
from gatewise.stats.paired import PairedDifference as PairedDifference
from gatewise.stats.paired import compare_paired as compare_paired
from gatewise.stats.paired import interval as interval
from gatewise.stats.paired import paired_difference as paired_difference
from gatewise.stats.paired import smallest_p as smallest_p
from gatewise.stats.power import detectable_difference as detectable_difference
from gatewise.stats.power import plan_seeds as plan_seeds
from gatewise.stats.power import safe_spread as safe_spread
from gatewise.stats.power import seeds_needed as seeds_needed
from gatewise.stats.prediction_test import p_at_most as p_at_most
from gatewise.stats.ranking import Ranking as Ranking
from gatewise.stats.ranking import rank as rank
from gatewise.stats.ranking import rank_trend as rank_trend
from gatewise.stats.sign_flips import permutation_p as permutation_p
from gatewise.stats.summary import finite as finite
from gatewise.stats.summary import half_width as half_width
from gatewise.stats.summary import mean as mean
from gatewise.stats.summary import standard_deviation as standard_deviation
from gatewise.stats.tuned import compare_tuned_runs as compare_tuned_runs
from gatewise.stats.tuned import needs_confirmation as needs_confirmation
