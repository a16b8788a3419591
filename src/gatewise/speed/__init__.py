"""Measure how fast units and layers run, line by line against targets."""

from gatewise.speed.line import Line as Line
from gatewise.speed.lines import LINES as LINES
from gatewise.speed.measuring import Timing as Timing
from gatewise.speed.measuring import compare_times as compare_times
from gatewise.speed.measuring import kept_bytes as kept_bytes
from gatewise.speed.measuring import memory_floor as memory_floor
from gatewise.speed.pages import speed_page as speed_page
from gatewise.speed.placing import measure_on as measure_on
from gatewise.speed.results import Row as Row
from gatewise.speed.results import changes as changes
from gatewise.speed.results import machine_facts as machine_facts
from gatewise.speed.results import measure_lines as measure_lines
from gatewise.speed.results import read_rows as read_rows
from gatewise.speed.results import rows_as_csv as rows_as_csv
