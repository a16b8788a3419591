"""Many runs: what they are, what they found, and what that shows."""

from gatewise.studies.own_compare import compare as compare
from gatewise.studies.recorder import Recorder as Recorder
from gatewise.studies.result import StudyResult as StudyResult
from gatewise.studies.result import read_study as read_study
from gatewise.studies.run import How as How
from gatewise.studies.run import Tally as Tally
from gatewise.studies.run import run_study as run_study
from gatewise.studies.statistics import Comparison as Comparison
from gatewise.studies.statistics import Difference as Difference
from gatewise.studies.statistics import Ranking as Ranking
from gatewise.studies.statistics import compare_paired as compare_paired
from gatewise.studies.statistics import rank as rank
from gatewise.studies.statistics import seeds_needed as seeds_needed
from gatewise.studies.statistics import smallest_p as smallest_p
from gatewise.studies.status import Status as Status
from gatewise.studies.status import status as status
from gatewise.studies.study import Study as Study
from gatewise.studies.study import presets as presets

__all__ = [
    "Comparison", "Difference", "How", "Ranking", "Recorder", "Status", "Study", "StudyResult", "Tally", "compare",
    "compare_paired", "presets", "rank", "read_study", "run_study", "seeds_needed", "smallest_p", "status",
]  # fmt: skip
