"""The page of a comparison: one row a unit, and everything else below "Details"."""

from gatewise.report.comparison.page import comparison_page as comparison_page
from gatewise.report.comparison.page import write_comparison as write_comparison
from gatewise.report.comparison.rows_chart import comparison_picture as comparison_picture
from gatewise.report.comparison.rows_chart import rate_rows as rate_rows
