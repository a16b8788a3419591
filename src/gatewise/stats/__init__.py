"""All statistics of the library: summaries, paired tests, corrections, intervals and ranks."""

from gatewise.stats.corrections import holm as holm
from gatewise.stats.paired import EXACT_UP_TO as EXACT_UP_TO
from gatewise.stats.paired import Comparison as Comparison
from gatewise.stats.paired import Difference as Difference
from gatewise.stats.paired import PairedDifference as PairedDifference
from gatewise.stats.paired import compare_paired as compare_paired
from gatewise.stats.paired import interval as interval
from gatewise.stats.paired import paired_difference as paired_difference
from gatewise.stats.paired import permutation_p as permutation_p
from gatewise.stats.paired import seeds_needed as seeds_needed
from gatewise.stats.paired import smallest_p as smallest_p
from gatewise.stats.prediction_test import p_at_most as p_at_most
from gatewise.stats.ranking import Ranking as Ranking
from gatewise.stats.ranking import rank as rank
from gatewise.stats.ranking import rank_trend as rank_trend
from gatewise.stats.summary import finite as finite
from gatewise.stats.summary import half_width as half_width
from gatewise.stats.summary import mean as mean
from gatewise.stats.summary import standard_deviation as standard_deviation
