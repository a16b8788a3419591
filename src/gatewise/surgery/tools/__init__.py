"""Tools that change whole models: merge filters, deploy, match widths, orthogonalise."""

from gatewise.surgery.tools.deployment import DeployReceipt as DeployReceipt
from gatewise.surgery.tools.deployment import deploy as deploy
from gatewise.surgery.tools.filter_pairs import candidate_pairs as candidate_pairs
from gatewise.surgery.tools.filter_pairs import common_direction as common_direction
from gatewise.surgery.tools.filter_pairs import fitted as fitted
from gatewise.surgery.tools.filter_pairs import opposite_pairs as opposite_pairs
from gatewise.surgery.tools.merge_receipts import MergeCurve as MergeCurve
from gatewise.surgery.tools.merge_receipts import MergePoint as MergePoint
from gatewise.surgery.tools.merge_receipts import MergeReceipt as MergeReceipt
from gatewise.surgery.tools.mergeable import plain_layer as plain_layer
from gatewise.surgery.tools.orthogonal_weights import OrthogonalReceipt as OrthogonalReceipt
from gatewise.surgery.tools.orthogonal_weights import orthogonalize as orthogonalize
from gatewise.surgery.tools.pair_merging import merge_curve as merge_curve
from gatewise.surgery.tools.pair_merging import merge_pairs as merge_pairs
from gatewise.surgery.tools.paired_relu import PairedReLU as PairedReLU
from gatewise.surgery.tools.refit import patches as patches
from gatewise.surgery.tools.width_matching import Match as Match
from gatewise.surgery.tools.width_matching import match as match
from gatewise.surgery.tools.width_scaling import UnmatchedError as UnmatchedError
from gatewise.surgery.tools.width_scaling import match_plan as match_plan
