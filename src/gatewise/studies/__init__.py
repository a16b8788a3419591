"""Studies: many training runs, their records, and their comparison."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.studies.recorders import LightningRecorder as LightningRecorder
    from gatewise.studies.recorders import TransformersRecorder as TransformersRecorder

from gatewise.studies.answer import COST_WORDS as COST_WORDS
from gatewise.studies.answer import RULE as RULE
from gatewise.studies.answer import ComparisonResult as ComparisonResult
from gatewise.studies.answer import CurvePoint as CurvePoint
from gatewise.studies.answer import Display as Display
from gatewise.studies.answer import EqualRate as EqualRate
from gatewise.studies.answer import Line as Line
from gatewise.studies.answer import MetricDisplay as MetricDisplay
from gatewise.studies.answer import ModelAnswer as ModelAnswer
from gatewise.studies.answer import RateCurve as RateCurve
from gatewise.studies.answer import RunRecord as RunRecord
from gatewise.studies.answer import StudyHeader as StudyHeader
from gatewise.studies.answer import StudyRecords as StudyRecords
from gatewise.studies.answer import UnitRow as UnitRow
from gatewise.studies.answer import beaten_by as beaten_by
from gatewise.studies.answer import block_names as block_names
from gatewise.studies.answer import collapse_words as collapse_words
from gatewise.studies.answer import error_words as error_words
from gatewise.studies.answer import foot_lines as foot_lines
from gatewise.studies.answer import headline_words as headline_words
from gatewise.studies.answer import level_words as level_words
from gatewise.studies.answer import new_examples_state as new_examples_state
from gatewise.studies.answer import plain_text as plain_text
from gatewise.studies.answer import pooled_rows as pooled_rows
from gatewise.studies.answer import preliminary_words as preliminary_words
from gatewise.studies.answer import rate_blocks as rate_blocks
from gatewise.studies.answer import rate_curves as rate_curves
from gatewise.studies.answer import row_words as row_words
from gatewise.studies.answer import seeds_words as seeds_words
from gatewise.studies.answer import undecided_by_noise as undecided_by_noise
from gatewise.studies.answer import unpaired_batches as unpaired_batches
from gatewise.studies.answer import verdict_line as verdict_line
from gatewise.studies.answer import verdict_words as verdict_words
from gatewise.studies.comparison import compare as compare
from gatewise.studies.engine import COLUMNS as COLUMNS
from gatewise.studies.engine import NOTHING as NOTHING
from gatewise.studies.engine import CellCall as CellCall
from gatewise.studies.engine import Event as Event
from gatewise.studies.engine import FunctionCell as FunctionCell
from gatewise.studies.engine import FunctionStudy as FunctionStudy
from gatewise.studies.engine import PlannedRun as PlannedRun
from gatewise.studies.engine import RateSearch as RateSearch
from gatewise.studies.engine import Rehearsal as Rehearsal
from gatewise.studies.engine import RunCounts as RunCounts
from gatewise.studies.engine import RunOptions as RunOptions
from gatewise.studies.engine import Status as Status
from gatewise.studies.engine import Study as Study
from gatewise.studies.engine import StudyFolder as StudyFolder
from gatewise.studies.engine import StudyProgress as StudyProgress
from gatewise.studies.engine import StudyResult as StudyResult
from gatewise.studies.engine import TimeEstimate as TimeEstimate
from gatewise.studies.engine import Watch as Watch
from gatewise.studies.engine import best_first as best_first
from gatewise.studies.engine import cell_name as cell_name
from gatewise.studies.engine import cells_of as cells_of
from gatewise.studies.engine import examples_of as examples_of
from gatewise.studies.engine import facts_of as facts_of
from gatewise.studies.engine import lines_below as lines_below
from gatewise.studies.engine import make_groups as make_groups
from gatewise.studies.engine import plain as plain
from gatewise.studies.engine import plain_config as plain_config
from gatewise.studies.engine import presets as presets
from gatewise.studies.engine import read_study as read_study
from gatewise.studies.engine import rehearse as rehearse
from gatewise.studies.engine import rows_of as rows_of
from gatewise.studies.engine import run_study as run_study
from gatewise.studies.engine import status as status
from gatewise.studies.engine import title_of as title_of
from gatewise.studies.recorders import OptunaObjective as OptunaObjective
from gatewise.studies.recorders import Recorder as Recorder
from gatewise.studies.records import compare_records as compare_records
from gatewise.studies.records import comparison_csv as comparison_csv


def __getattr__(name: str) -> object:
    """Load the recorders of other libraries when they are first used: each needs an extra."""
    if name in ("LightningRecorder", "TransformersRecorder"):
        from gatewise.studies import recorders

        return getattr(recorders, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
