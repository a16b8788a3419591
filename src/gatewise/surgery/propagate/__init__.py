"""Follow a change of channels through a model's graph. Nothing here changes a model."""

from gatewise.surgery.propagate.costs import BUDGETS as BUDGETS
from gatewise.surgery.propagate.costs import cost as cost
from gatewise.surgery.propagate.costs import growth as growth
from gatewise.surgery.propagate.costs import operations as operations
from gatewise.surgery.propagate.deferral import Deferral as Deferral
from gatewise.surgery.propagate.deferral import Takeover as Takeover
from gatewise.surgery.propagate.deferral import defer as defer
from gatewise.surgery.propagate.edits import Edit as Edit
from gatewise.surgery.propagate.edits import Setting as Setting
from gatewise.surgery.propagate.edits import edited as edited
from gatewise.surgery.propagate.edits import select as select
from gatewise.surgery.propagate.maps import ChannelMap as ChannelMap
from gatewise.surgery.propagate.maps import from_runs as from_runs
from gatewise.surgery.propagate.maps import to_runs as to_runs
from gatewise.surgery.propagate.reader_columns import columns_of as columns_of
from gatewise.surgery.propagate.reader_columns import new_columns as new_columns
from gatewise.surgery.propagate.reader_columns import of_channels as of_channels
from gatewise.surgery.propagate.reader_columns import readers as readers
from gatewise.surgery.propagate.sweep import POLICIES as POLICIES
from gatewise.surgery.propagate.sweep import Maps as Maps
from gatewise.surgery.propagate.sweep import Sweep as Sweep
from gatewise.surgery.propagate.widening import Widening as Widening
from gatewise.surgery.propagate.widening import follow as follow
from gatewise.surgery.propagate.widening import widen as widen
