"""What the result of a study says: the same words on the terminal, in JSON and on the page."""

from gatewise.studies.answer.checked_study import CheckedStudy as CheckedStudy
from gatewise.studies.answer.checked_study import RateGrid as RateGrid
from gatewise.studies.answer.checked_study import RunRecord as RunRecord
from gatewise.studies.answer.exports import comparison_csv as comparison_csv
from gatewise.studies.answer.exports import csv_cell as csv_cell
from gatewise.studies.answer.judging import missing_runs as missing_runs
from gatewise.studies.answer.result import ComparisonResult as ComparisonResult
from gatewise.studies.answer.rows import CurvePoint as CurvePoint
from gatewise.studies.answer.rows import EqualRate as EqualRate
from gatewise.studies.answer.rows import ModelAnswer as ModelAnswer
from gatewise.studies.answer.rows import UnitRow as UnitRow
from gatewise.studies.answer.text import RULE as RULE
from gatewise.studies.answer.text import foot_lines as foot_lines
from gatewise.studies.answer.text import headline_words as headline_words
from gatewise.studies.answer.text import preliminary_words as preliminary_words
from gatewise.studies.answer.text import verdict_line as verdict_line
