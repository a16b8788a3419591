"""What the gates of a model do on data: activity, overlap, changes and invariance."""

from gatewise.analysis.gating.activity import Gates as Gates
from gatewise.analysis.gating.activity import SiteGates as SiteGates
from gatewise.analysis.gating.activity import gates as gates
from gatewise.analysis.gating.flips import GateFlips as GateFlips
from gatewise.analysis.gating.flips import SiteFlips as SiteFlips
from gatewise.analysis.gating.flips import flips_between as flips_between
from gatewise.analysis.gating.flips import gate_flips as gate_flips
from gatewise.analysis.gating.gate_calls import GateSite as GateSite
from gatewise.analysis.gating.gate_calls import gate_sites as gate_sites
from gatewise.analysis.gating.gate_calls import scope_name as scope_name
from gatewise.analysis.gating.gate_calls import unit_calls as unit_calls
from gatewise.analysis.gating.invariance_scores import Invariance as Invariance
from gatewise.analysis.gating.invariance_scores import LayerInvariance as LayerInvariance
from gatewise.analysis.gating.invariance_scores import invariance as invariance
from gatewise.analysis.gating.overlap import GateOverlap as GateOverlap
from gatewise.analysis.gating.overlap import gate_overlap as gate_overlap
from gatewise.analysis.gating.rules import soft_rule as soft_rule
from gatewise.analysis.gating.size_histogram import SizeHistogram as SizeHistogram
from gatewise.analysis.gating.stream import Progress as Progress
from gatewise.analysis.gating.stream import SiteStream as SiteStream
from gatewise.analysis.gating.term_s import TermSRange as TermSRange
from gatewise.analysis.gating.term_s import UnitTermS as UnitTermS
from gatewise.analysis.gating.term_s import term_s_range as term_s_range
from gatewise.analysis.gating.warps import corner_crops as corner_crops
from gatewise.analysis.gating.warps import standard_warps as standard_warps
from gatewise.analysis.gating.warps import warp as warp
