"""The page of a comparison: units against a baseline over seeds."""

from gatewise.report.comparison.page import comparison_page as comparison_page
from gatewise.report.comparison.page import write_comparison as write_comparison
from gatewise.report.comparison.toml_format import toml_text as toml_text
