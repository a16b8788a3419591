"""From a request to a plan: choose sites, work out what their swap takes, write it down."""

from gatewise.surgery.planning.entry_points import name_entry_points as name_entry_points
from gatewise.surgery.planning.examples import paths_of as paths_of
from gatewise.surgery.planning.examples import read_examples as read_examples
from gatewise.surgery.planning.examples import readings_of_example as readings_of_example
from gatewise.surgery.planning.plan_text import table as table
from gatewise.surgery.planning.plan_text import unreached_lines as unreached_lines
from gatewise.surgery.planning.planner import make_plan as make_plan
from gatewise.surgery.planning.planner import present_settings as present_settings
from gatewise.surgery.planning.plans import Entry as Entry
from gatewise.surgery.planning.plans import Plan as Plan
from gatewise.surgery.planning.plans import signature_of as signature_of
from gatewise.surgery.planning.put_back import PutBack as PutBack
from gatewise.surgery.planning.put_back import SlopedReLU as SlopedReLU
from gatewise.surgery.planning.requests import Request as Request
from gatewise.surgery.planning.requests import read_requests as read_requests
from gatewise.surgery.planning.selection import Where as Where
from gatewise.surgery.planning.selection import select as select
from gatewise.surgery.planning.swap_interface import UNCHANGED as UNCHANGED
from gatewise.surgery.planning.swap_interface import Draft as Draft
from gatewise.surgery.planning.swap_interface import PlanningContext as PlanningContext
from gatewise.surgery.planning.swap_interface import SiteSwap as SiteSwap
from gatewise.surgery.planning.swap_interface import Swap as Swap
from gatewise.surgery.planning.swap_interface import channel_dim as channel_dim
from gatewise.surgery.planning.swap_interface import check_option_names as check_option_names
from gatewise.surgery.planning.swap_interface import find_swap as find_swap
from gatewise.surgery.planning.swap_interface import swap_names as swap_names
