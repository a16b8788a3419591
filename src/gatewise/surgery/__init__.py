"""Put any unit into any model: plan the change, make it, prove it.

Note [How]. A model is read as a graph of activation sites (``gatewise.graph``). A change of
channels at a site is followed over the graph as a map of channels; each operator's rule passes it
on, ends it with an edit of a parameter, or refuses. The result is plain data: parameters indexed
along a dimension, new values of sizes, units at paths or, for functional and reused calls, in
rewritten methods. The module tree stays the user's own: class, names, state dict.

The sub-packages, each of which imports only those before it: ``propagate`` (channel maps),
``calls`` (where calls stand in the source), ``rewrite`` (changes of a model), ``binding`` (units
that see the layer before them), ``planning`` (from a request to a plan, and the interface of a
swap), ``swaps`` (one file for each swap), ``proof``, ``applying`` (which carries out a plan),
``saving``, ``tools``, ``swapping`` and ``undoing``, what users call.
"""

from gatewise.surgery.applying import receipt as receipt
from gatewise.surgery.planning import Entry as Entry
from gatewise.surgery.planning import Request as Request
from gatewise.surgery.planning import Swap as Swap
from gatewise.surgery.planning import table as table
from gatewise.surgery.proof import Proof as Proof
from gatewise.surgery.proof import Receipt as Receipt
from gatewise.surgery.proof import SwapFailed as SwapFailed
from gatewise.surgery.proof import run as run
from gatewise.surgery.propagate import cost as cost
from gatewise.surgery.reasons import Reason as Reason
from gatewise.surgery.revival import RevivalReceipt as RevivalReceipt
from gatewise.surgery.revival import RevivedSite as RevivedSite
from gatewise.surgery.revival import revive as revive
from gatewise.surgery.saving import from_pretrained as from_pretrained
from gatewise.surgery.saving import load_swaps as load_swaps
from gatewise.surgery.saving import save_swaps as save_swaps
from gatewise.surgery.swapping import Plan as Plan
from gatewise.surgery.swapping import plan as plan
from gatewise.surgery.swapping import swap as swap
from gatewise.surgery.swaps import ThresholdedUnit as ThresholdedUnit
from gatewise.surgery.swaps import twin_of as twin_of
from gatewise.surgery.tools import DeployReceipt as DeployReceipt
from gatewise.surgery.tools import Match as Match
from gatewise.surgery.tools import MergeCurve as MergeCurve
from gatewise.surgery.tools import MergePoint as MergePoint
from gatewise.surgery.tools import MergeReceipt as MergeReceipt
from gatewise.surgery.tools import OrthogonalReceipt as OrthogonalReceipt
from gatewise.surgery.tools import PairedReLU as PairedReLU
from gatewise.surgery.tools import UnmatchedError as UnmatchedError
from gatewise.surgery.tools import deploy as deploy
from gatewise.surgery.tools import match as match
from gatewise.surgery.tools import merge_curve as merge_curve
from gatewise.surgery.tools import merge_pairs as merge_pairs
from gatewise.surgery.tools import orthogonalize as orthogonalize
from gatewise.surgery.undoing import undo as undo

# What users call. The other names are for other parts of gatewise.
__all__ = [
    "DeployReceipt",
    "Entry",
    "Match",
    "MergeCurve",
    "MergePoint",
    "MergeReceipt",
    "OrthogonalReceipt",
    "PairedReLU",
    "Plan",
    "Proof",
    "Reason",
    "Receipt",
    "Request",
    "RevivalReceipt",
    "RevivedSite",
    "Swap",
    "SwapFailed",
    "ThresholdedUnit",
    "deploy",
    "from_pretrained",
    "load_swaps",
    "match",
    "merge_curve",
    "merge_pairs",
    "orthogonalize",
    "plan",
    "receipt",
    "revive",
    "save_swaps",
    "swap",
    "twin_of",
    "undo",
]
