"""The explorer of gates: an HTML page that is built from ``explorer/`` and ships with the package."""

from gatewise.report.explorer.page import explorer_page as explorer_page
