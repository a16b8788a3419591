"""Studies: many training runs, their records, and their comparison."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gatewise.studies.recorders import LightningRecorder as LightningRecorder
    from gatewise.studies.recorders import TransformersRecorder as TransformersRecorder

from gatewise.studies.answer import RULE as RULE
from gatewise.studies.answer import CheckedStudy as CheckedStudy
from gatewise.studies.answer import ComparisonResult as ComparisonResult
from gatewise.studies.answer import CurvePoint as CurvePoint
from gatewise.studies.answer import EqualRate as EqualRate
from gatewise.studies.answer import ModelAnswer as ModelAnswer
from gatewise.studies.answer import RunRecord as RunRecord
from gatewise.studies.answer import UnitRow as UnitRow
from gatewise.studies.answer import comparison_csv as comparison_csv
from gatewise.studies.answer import foot_lines as foot_lines
from gatewise.studies.answer import headline_words as headline_words
from gatewise.studies.answer import preliminary_words as preliminary_words
from gatewise.studies.answer import verdict_line as verdict_line
from gatewise.studies.comparison import BuiltIn as BuiltIn
from gatewise.studies.comparison import Choices as Choices
from gatewise.studies.comparison import ComparisonStudy as ComparisonStudy
from gatewise.studies.comparison import CostEstimate as CostEstimate
from gatewise.studies.comparison import NamedData as NamedData
from gatewise.studies.comparison import compare as compare
from gatewise.studies.comparison import describe as describe
from gatewise.studies.comparison import estimate_cost as estimate_cost
from gatewise.studies.comparison import make_recipe as make_recipe
from gatewise.studies.comparison import plan_comparison as plan_comparison
from gatewise.studies.comparison import plan_run as plan_run
from gatewise.studies.comparison import presets as presets
from gatewise.studies.comparison import read_comparison as read_comparison
from gatewise.studies.comparison import read_study as read_study
from gatewise.studies.comparison import run_comparison as run_comparison
from gatewise.studies.engine import KEY as KEY
from gatewise.studies.engine import Cell as Cell
from gatewise.studies.engine import CellCall as CellCall
from gatewise.studies.engine import FunctionCell as FunctionCell
from gatewise.studies.engine import FunctionStudy as FunctionStudy
from gatewise.studies.engine import Progress as Progress
from gatewise.studies.engine import Running as Running
from gatewise.studies.engine import StudyFile as StudyFile
from gatewise.studies.engine import export_study as export_study
from gatewise.studies.engine import import_study as import_study
from gatewise.studies.engine import plain as plain
from gatewise.studies.engine import plain_config as plain_config
from gatewise.studies.engine import read_records as read_records
from gatewise.studies.engine import without_times as without_times
from gatewise.studies.recorders import OptunaObjective as OptunaObjective
from gatewise.studies.recorders import Recorder as Recorder
from gatewise.studies.recorders import read_recorded as read_recorded
from gatewise.studies.records import compare_records as compare_records


def __getattr__(name: str) -> object:
    """Load the recorders of other libraries when they are first used: each needs an extra."""
    if name in ("LightningRecorder", "TransformersRecorder"):
        from gatewise.studies import recorders

        return getattr(recorders, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
