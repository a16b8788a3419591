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
from gatewise.studies.answer import CheckedStudy as CheckedStudy
from gatewise.studies.answer import UnitRow as UnitRow
from gatewise.studies.answer import beaten_by as beaten_by
from gatewise.studies.answer import block_names as block_names
from gatewise.studies.answer import collapse_words as collapse_words
from gatewise.studies.answer import comparison_csv as comparison_csv
from gatewise.studies.answer import csv_cell as csv_cell
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
from gatewise.studies.comparison import BuiltIn as BuiltIn
from gatewise.studies.comparison import Choices as Choices
from gatewise.studies.comparison import ComparisonStudy as ComparisonStudy
from gatewise.studies.comparison import CostEstimate as CostEstimate
from gatewise.studies.comparison import NamedData as NamedData
from gatewise.studies.comparison import Running as Running
from gatewise.studies.comparison import compare as compare
from gatewise.studies.comparison import describe as describe
from gatewise.studies.comparison import estimate_cost as estimate_cost
from gatewise.studies.comparison import plan_comparison as plan_comparison
from gatewise.studies.comparison import presets as presets
from gatewise.studies.comparison import read_comparison as read_comparison
from gatewise.studies.comparison import read_study as read_study
from gatewise.studies.comparison import run_comparison as run_comparison
from gatewise.studies.engine import StudyFile as StudyFile
from gatewise.studies.engine import read_records as read_records
from gatewise.studies.older import COLUMNS as COLUMNS
from gatewise.studies.older import NOTHING as NOTHING
from gatewise.studies.older import CellCall as CellCall
from gatewise.studies.older import Event as Event
from gatewise.studies.older import FunctionCell as FunctionCell
from gatewise.studies.older import FunctionStudy as FunctionStudy
from gatewise.studies.older import PlannedRun as PlannedRun
from gatewise.studies.older import RateSearch as RateSearch
from gatewise.studies.older import Rehearsal as Rehearsal
from gatewise.studies.older import RunCounts as RunCounts
from gatewise.studies.older import RunOptions as RunOptions
from gatewise.studies.older import Status as Status
from gatewise.studies.older import Study as Study
from gatewise.studies.older import StudyFolder as StudyFolder
from gatewise.studies.older import StudyProgress as StudyProgress
from gatewise.studies.older import StudyResult as StudyResult
from gatewise.studies.older import TimeEstimate as TimeEstimate
from gatewise.studies.older import Watch as Watch
from gatewise.studies.older import best_first as best_first
from gatewise.studies.older import cell_name as cell_name
from gatewise.studies.older import cells_of as cells_of
from gatewise.studies.older import examples_of as examples_of
from gatewise.studies.older import facts_of as facts_of
from gatewise.studies.older import lines_below as lines_below
from gatewise.studies.older import make_groups as make_groups
from gatewise.studies.older import plain as plain
from gatewise.studies.older import plain_config as plain_config
from gatewise.studies.older import rehearse as rehearse
from gatewise.studies.older import rows_of as rows_of
from gatewise.studies.older import run_study as run_study
from gatewise.studies.older import status as status
from gatewise.studies.older import title_of as title_of
from gatewise.studies.recorders import OptunaObjective as OptunaObjective
from gatewise.studies.recorders import Recorder as Recorder
from gatewise.studies.records import compare_records as compare_records


def __getattr__(name: str) -> object:
    """Load the recorders of other libraries when they are first used: each needs an extra."""
    if name in ("LightningRecorder", "TransformersRecorder"):
        from gatewise.studies import recorders

        return getattr(recorders, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
