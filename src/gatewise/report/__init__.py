"""Records in, one HTML file out.

`charts` is the chart model with its layout. `sheet` is a page made of text
and charts. `comparison`, `diagnosis` and `gallery` fill these records from the plain result of a
study, of a diagnosis and from the catalogue of units.
"""

from gatewise.report.charts import CATEGORIES as CATEGORIES
from gatewise.report.charts import SOLID as SOLID
from gatewise.report.charts import Cell as Cell
from gatewise.report.charts import Chart as Chart
from gatewise.report.charts import Film as Film
from gatewise.report.charts import Mark as Mark
from gatewise.report.charts import Panels as Panels
from gatewise.report.charts import Picture as Picture
from gatewise.report.charts import RateRow as RateRow
from gatewise.report.charts import RateRows as RateRows
from gatewise.report.charts import Regions as Regions
from gatewise.report.charts import Series as Series
from gatewise.report.charts import Table as Table
from gatewise.report.charts import size_colours as size_colours
from gatewise.report.comparison import comparison_page as comparison_page
from gatewise.report.comparison import comparison_picture as comparison_picture
from gatewise.report.comparison import write_comparison as write_comparison
from gatewise.report.diagnosis import PAGE as PAGE
from gatewise.report.diagnosis import RECORD as RECORD
from gatewise.report.diagnosis import diagnosis_page as diagnosis_page
from gatewise.report.diagnosis import is_diagnosis as is_diagnosis
from gatewise.report.diagnosis import show_question as show_question
from gatewise.report.diagnosis import write_diagnosis as write_diagnosis
from gatewise.report.explorer import explorer_page as explorer_page
from gatewise.report.gallery import Card as Card
from gatewise.report.gallery import Curve as Curve
from gatewise.report.gallery import ErrorRow as ErrorRow
from gatewise.report.gallery import Fact as Fact
from gatewise.report.gallery import Gallery as Gallery
from gatewise.report.gallery import Kink as Kink
from gatewise.report.gallery import Line as Line
from gatewise.report.gallery import Plot as Plot
from gatewise.report.gallery import figure as figure
from gatewise.report.gallery import gallery_page as gallery_page
from gatewise.report.gallery import plain as plain
from gatewise.report.picture_files import picture_file as picture_file
from gatewise.report.sheet import Code as Code
from gatewise.report.sheet import Folded as Folded
from gatewise.report.sheet import Section as Section
from gatewise.report.sheet import Sheet as Sheet
from gatewise.report.sheet import Text as Text
from gatewise.report.sheet import sheet_page as sheet_page
from gatewise.report.sparse_models import is_sparsity as is_sparsity
from gatewise.report.sparse_models import sparsity_page as sparsity_page
from gatewise.report.writing import write_page as write_page
from gatewise.words import MINUS as MINUS
from gatewise.words import bound as bound
from gatewise.words import join as join
from gatewise.words import number as number
from gatewise.words import ulps as ulps
