"""The page of a diagnosis: one section per question."""

from gatewise.report.diagnosis.layer_charts import Facts as Facts
from gatewise.report.diagnosis.layer_charts import column as column
from gatewise.report.diagnosis.layer_charts import left_out as left_out
from gatewise.report.diagnosis.layer_charts import percent as percent
from gatewise.report.diagnosis.layer_charts import value_cell as value_cell
from gatewise.report.diagnosis.page import PAGE as PAGE
from gatewise.report.diagnosis.page import RECORD as RECORD
from gatewise.report.diagnosis.page import diagnosis_page as diagnosis_page
from gatewise.report.diagnosis.page import is_diagnosis as is_diagnosis
from gatewise.report.diagnosis.page import show_question as show_question
from gatewise.report.diagnosis.page import write_diagnosis as write_diagnosis
