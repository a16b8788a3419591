"""Records in, one HTML file out.

The parts that draw know nothing of units, runs or studies, only the plain records of `records`,
`charts` and `sheet`. `comparison` fills those from the plain result of a study, `diagnosis` from
that of a diagnosis.
"""

from gatewise.report.comparison import comparison_page as comparison_page
from gatewise.report.comparison import write_comparison as write_comparison
from gatewise.report.diagnosis import PAGE as PAGE
from gatewise.report.diagnosis import RECORD as RECORD
from gatewise.report.diagnosis import diagnosis_page as diagnosis_page
from gatewise.report.diagnosis import is_diagnosis as is_diagnosis
from gatewise.report.diagnosis import write_diagnosis as write_diagnosis
from gatewise.report.gallery import figure as figure
from gatewise.report.gallery import gallery_page as gallery_page
from gatewise.report.gallery import plain as plain
from gatewise.report.records import Card as Card
from gatewise.report.records import Curve as Curve
from gatewise.report.records import ErrorRow as ErrorRow
from gatewise.report.records import Fact as Fact
from gatewise.report.records import Gallery as Gallery
from gatewise.report.records import Kink as Kink
from gatewise.report.records import Line as Line
from gatewise.report.records import Plot as Plot
from gatewise.report.sheet import Code as Code
from gatewise.report.sheet import Folded as Folded
from gatewise.report.sheet import Section as Section
from gatewise.report.sheet import Sheet as Sheet
from gatewise.report.sheet import Text as Text
from gatewise.report.sheet import sheet_page as sheet_page
from gatewise.report.words import MINUS as MINUS
from gatewise.report.words import bound as bound
from gatewise.report.words import join as join
from gatewise.report.words import number as number
from gatewise.report.words import ulps as ulps
from gatewise.report.writing import write_page as write_page
