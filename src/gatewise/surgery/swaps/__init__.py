"""The swaps, one file each. Importing a file makes its swap known under its names."""

from gatewise.surgery.swaps.beta import BetaSwap as BetaSwap
from gatewise.surgery.swaps.galu import GaluSwap as GaluSwap
from gatewise.surgery.swaps.galu import twin_of as twin_of
from gatewise.surgery.swaps.gated_attention import GatedAttentionSwap as GatedAttentionSwap
from gatewise.surgery.swaps.gated_units import GatedUnitSwap as GatedUnitSwap
from gatewise.surgery.swaps.hard_forms import BETA_FORMS as BETA_FORMS
from gatewise.surgery.swaps.hard_forms import beta_within as beta_within
from gatewise.surgery.swaps.hard_forms import count_pieces as count_pieces
from gatewise.surgery.swaps.hard_forms import distance_to_maximum as distance_to_maximum
from gatewise.surgery.swaps.hard_forms import hard_unit as hard_unit
from gatewise.surgery.swaps.hard_forms import has_reached as has_reached
from gatewise.surgery.swaps.hard_forms import lambert as lambert
from gatewise.surgery.swaps.hard_forms import least_eta as least_eta
from gatewise.surgery.swaps.iieu import IIEUSwap as IIEUSwap
from gatewise.surgery.swaps.paired import PairedSwap as PairedSwap
from gatewise.surgery.swaps.plain_mlp import PlainMLPSwap as PlainMLPSwap
from gatewise.surgery.swaps.pointwise import PointwiseSwap as PointwiseSwap
from gatewise.surgery.swaps.psc import PhaseSelectiveSwap as PhaseSelectiveSwap
from gatewise.surgery.swaps.put_back_planner import defer_with_readers as defer_with_readers
from gatewise.surgery.swaps.thresholded import ThresholdedUnit as ThresholdedUnit
from gatewise.surgery.swaps.thresholded import ThresholdSwap as ThresholdSwap
