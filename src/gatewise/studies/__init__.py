"""Many runs: what they are, what they found, and what that shows."""

from gatewise.studies.statistics import Comparison as Comparison
from gatewise.studies.statistics import Difference as Difference
from gatewise.studies.statistics import Ranking as Ranking
from gatewise.studies.statistics import compare_paired as compare_paired
from gatewise.studies.statistics import rank as rank
from gatewise.studies.statistics import seeds_needed as seeds_needed
from gatewise.studies.statistics import smallest_p as smallest_p

__all__ = ["Comparison", "Difference", "Ranking", "compare_paired", "rank", "seeds_needed", "smallest_p"]
