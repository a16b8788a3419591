"""The gallery of units."""

from gatewise.report.gallery.page import gallery_page as gallery_page
from gatewise.report.gallery.plain_formula import plain as plain
from gatewise.report.gallery.records import Card as Card
from gatewise.report.gallery.records import Curve as Curve
from gatewise.report.gallery.records import ErrorRow as ErrorRow
from gatewise.report.gallery.records import Fact as Fact
from gatewise.report.gallery.records import Gallery as Gallery
from gatewise.report.gallery.records import Kink as Kink
from gatewise.report.gallery.records import Line as Line
from gatewise.report.gallery.records import Plot as Plot
from gatewise.report.gallery.unit_charts import LIGHT_STYLES as LIGHT_STYLES
from gatewise.report.gallery.unit_charts import figure as figure
from gatewise.report.gallery.unit_charts import tile as tile
from gatewise.report.gallery.unit_charts import unit_panels as unit_panels
