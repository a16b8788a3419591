"""gatewise.report.gallery."""

from gatewise.report.gallery.page import gallery_page as gallery_page
from gatewise.report.gallery.page import undrawn as undrawn
from gatewise.report.gallery.picture_file import figure as figure
from gatewise.report.gallery.plain_formula import plain as plain
from gatewise.report.gallery.plot import LIGHT_STYLES as LIGHT_STYLES
