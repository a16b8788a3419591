"""Sparse activations: measure them, make them sparse with or without training, skip the work.

Note [What is counted]. Zeros are counted at the input of linear layers, where they save work, or at
gates, in the dtype of the model, over all tokens of the data. Means over layers are weighted by
the weights that need not be read. Thresholds come from one part of the data, and all reported
shares from another.
"""

from gatewise.sparsity.measuring import SparsityMeasure as SparsityMeasure
from gatewise.sparsity.measuring import measure_sparsity as measure_sparsity
from gatewise.sparsity.quality import Quality as Quality
from gatewise.sparsity.rectified_norms import RectifiedNorm as RectifiedNorm
from gatewise.sparsity.relufying import PENALTIES as PENALTIES
from gatewise.sparsity.relufying import ShiftedReLU as ShiftedReLU
from gatewise.sparsity.relufying import relufy as relufy
from gatewise.sparsity.results import FORMAT as FORMAT
from gatewise.sparsity.results import CurvePoint as CurvePoint
from gatewise.sparsity.results import FineTuning as FineTuning
from gatewise.sparsity.results import LayerSparsity as LayerSparsity
from gatewise.sparsity.results import LayerTime as LayerTime
from gatewise.sparsity.results import Sparsified as Sparsified
from gatewise.sparsity.results import Stage as Stage
from gatewise.sparsity.sparse_linear import SparseLinear as SparseLinear
from gatewise.sparsity.sparsifying import LEVELS as LEVELS
from gatewise.sparsity.sparsifying import sparsify as sparsify
from gatewise.sparsity.thresholds import threshold_for as threshold_for
from gatewise.sparsity.timing import Timing as Timing

# What users call. The other names are for other parts of gatewise.
__all__ = [
    "CurvePoint",
    "FineTuning",
    "LayerSparsity",
    "LayerTime",
    "Quality",
    "ShiftedReLU",
    "Sparsified",
    "SparsityMeasure",
    "Timing",
    "measure_sparsity",
    "relufy",
    "sparsify",
]
