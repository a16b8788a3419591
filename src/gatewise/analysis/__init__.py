"""Questions asked of any network or of its kernel, one file each."""

from gatewise.analysis.checkpoint_weights import fill as fill
from gatewise.analysis.costs import Cost as Cost
from gatewise.analysis.costs import SiteCost as SiteCost
from gatewise.analysis.costs import cost as cost
from gatewise.analysis.diagnosis import QUESTIONS as QUESTIONS
from gatewise.analysis.diagnosis import Advice as Advice
from gatewise.analysis.diagnosis import Answer as Answer
from gatewise.analysis.diagnosis import Commands as Commands
from gatewise.analysis.diagnosis import Diagnosis as Diagnosis
from gatewise.analysis.diagnosis import DiagnosisInterrupted as DiagnosisInterrupted
from gatewise.analysis.diagnosis import InputCheck as InputCheck
from gatewise.analysis.diagnosis import all_questions as all_questions
from gatewise.analysis.diagnosis import ask as ask
from gatewise.analysis.diagnosis import diagnose as diagnose
from gatewise.analysis.diagnosis import is_untrained as is_untrained
from gatewise.analysis.diagnosis import plural as plural
from gatewise.analysis.filters import KnownResponses as KnownResponses
from gatewise.analysis.filters import LayerOrthogonality as LayerOrthogonality
from gatewise.analysis.filters import LayerPairing as LayerPairing
from gatewise.analysis.filters import LayerPrior as LayerPrior
from gatewise.analysis.filters import Orthogonality as Orthogonality
from gatewise.analysis.filters import Pairing as Pairing
from gatewise.analysis.filters import Rademacher as Rademacher
from gatewise.analysis.filters import Reconstruction as Reconstruction
from gatewise.analysis.filters import RegionPrior as RegionPrior
from gatewise.analysis.filters import conjugate_gradients as conjugate_gradients
from gatewise.analysis.filters import orthogonality as orthogonality
from gatewise.analysis.filters import pairing as pairing
from gatewise.analysis.filters import partners as partners
from gatewise.analysis.filters import rademacher as rademacher
from gatewise.analysis.filters import random_ratio as random_ratio
from gatewise.analysis.filters import reconstruct as reconstruct
from gatewise.analysis.filters import region_prior as region_prior
from gatewise.analysis.gating import GateFlips as GateFlips
from gatewise.analysis.gating import GateOverlap as GateOverlap
from gatewise.analysis.gating import Gates as Gates
from gatewise.analysis.gating import Invariance as Invariance
from gatewise.analysis.gating import LayerInvariance as LayerInvariance
from gatewise.analysis.gating import SiteFlips as SiteFlips
from gatewise.analysis.gating import SiteGates as SiteGates
from gatewise.analysis.gating import Tails as Tails
from gatewise.analysis.gating import corner_crops as corner_crops
from gatewise.analysis.gating import gate_flips as gate_flips
from gatewise.analysis.gating import gate_overlap as gate_overlap
from gatewise.analysis.gating import gates as gates
from gatewise.analysis.gating import invariance as invariance
from gatewise.analysis.gating import tails as tails
from gatewise.analysis.identification import Identification as Identification
from gatewise.analysis.identification import SiteFunction as SiteFunction
from gatewise.analysis.identification import identify as identify
from gatewise.analysis.kernel_measures import Spectrum as Spectrum
from gatewise.analysis.kernel_measures import spectrum as spectrum
from gatewise.analysis.model_graphs import check_weights as check_weights
from gatewise.analysis.monitoring import GateMonitor as GateMonitor
from gatewise.analysis.monitoring import MonitorRecord as MonitorRecord
from gatewise.analysis.monitoring import SiteActivity as SiteActivity
from gatewise.analysis.record import AnalysisResult as AnalysisResult
from gatewise.analysis.regions import AffineMap as AffineMap
from gatewise.analysis.regions import Film as Film
from gatewise.analysis.regions import Partition as Partition
from gatewise.analysis.regions import Region as Region
from gatewise.analysis.regions import SoftPartition as SoftPartition
from gatewise.analysis.regions import affine_map as affine_map
from gatewise.analysis.regions import film as film
from gatewise.analysis.regions import partition as partition
from gatewise.analysis.scores import IGNORED as IGNORED
from gatewise.analysis.scores import scores_of as scores_of
from gatewise.analysis.scores import summed_loss as summed_loss
from gatewise.analysis.tangent_kernel import ntk as ntk
from gatewise.analysis.tangent_kernel import ntk_routes as ntk_routes

# What users call. The other names are for other parts of gatewise.
__all__ = [
    "QUESTIONS",
    "Advice",
    "AffineMap",
    "AnalysisResult",
    "Answer",
    "Commands",
    "Cost",
    "Diagnosis",
    "DiagnosisInterrupted",
    "Film",
    "GateFlips",
    "GateMonitor",
    "GateOverlap",
    "Gates",
    "Identification",
    "InputCheck",
    "Invariance",
    "LayerInvariance",
    "LayerOrthogonality",
    "LayerPairing",
    "LayerPrior",
    "MonitorRecord",
    "Orthogonality",
    "Pairing",
    "Partition",
    "Rademacher",
    "Reconstruction",
    "Region",
    "RegionPrior",
    "SiteActivity",
    "SiteCost",
    "SiteFlips",
    "SiteFunction",
    "SiteGates",
    "SoftPartition",
    "Spectrum",
    "Tails",
    "affine_map",
    "all_questions",
    "corner_crops",
    "cost",
    "diagnose",
    "film",
    "gate_flips",
    "gate_overlap",
    "gates",
    "identify",
    "invariance",
    "ntk",
    "ntk_routes",
    "orthogonality",
    "pairing",
    "partition",
    "rademacher",
    "random_ratio",
    "reconstruct",
    "region_prior",
    "spectrum",
]
