"""The explorer of gates: an HTML page built from ``explorer/``."""

from gatewise.report.explorer.page import explorer_page as explorer_page
