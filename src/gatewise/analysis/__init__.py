"""Questions asked of any network or of its kernel, one file each."""

from gatewise.analysis._affine_warps import corner_crops as corner_crops
from gatewise.analysis._diagnosis.advice import Advice as Advice
from gatewise.analysis._diagnosis.questions import QUESTIONS as QUESTIONS
from gatewise.analysis.affine_map import AffineMap as AffineMap
from gatewise.analysis.affine_map import affine_map as affine_map
from gatewise.analysis.alignment import Alignment as Alignment
from gatewise.analysis.alignment import alignment as alignment
from gatewise.analysis.alignment_tracker import AlignmentTracker as AlignmentTracker
from gatewise.analysis.bundles import Bundles as Bundles
from gatewise.analysis.bundles import bundle_kernel as bundle_kernel
from gatewise.analysis.bundles import bundles as bundles
from gatewise.analysis.bundles import expected_products as expected_products
from gatewise.analysis.cost import Cost as Cost
from gatewise.analysis.cost import SiteCost as SiteCost
from gatewise.analysis.cost import cost as cost
from gatewise.analysis.delta import delta as delta
from gatewise.analysis.diagnose import Answer as Answer
from gatewise.analysis.diagnose import Diagnosis as Diagnosis
from gatewise.analysis.diagnose import diagnose as diagnose
from gatewise.analysis.film import Film as Film
from gatewise.analysis.film import film as film
from gatewise.analysis.gate_flips import GateFlips as GateFlips
from gatewise.analysis.gate_flips import SiteFlips as SiteFlips
from gatewise.analysis.gate_flips import gate_flips as gate_flips
from gatewise.analysis.gate_overlap import GateOverlap as GateOverlap
from gatewise.analysis.gate_overlap import gate_overlap as gate_overlap
from gatewise.analysis.gates import Gates as Gates
from gatewise.analysis.gates import SiteGates as SiteGates
from gatewise.analysis.gates import gates as gates
from gatewise.analysis.invariance import Invariance as Invariance
from gatewise.analysis.invariance import LayerInvariance as LayerInvariance
from gatewise.analysis.invariance import invariance as invariance
from gatewise.analysis.neutralisation import Neutralisation as Neutralisation
from gatewise.analysis.neutralisation import neutralisation as neutralisation
from gatewise.analysis.ntk import ntk as ntk
from gatewise.analysis.ntk import ntk_routes as ntk_routes
from gatewise.analysis.orthogonality import LayerOrthogonality as LayerOrthogonality
from gatewise.analysis.orthogonality import Orthogonality as Orthogonality
from gatewise.analysis.orthogonality import orthogonality as orthogonality
from gatewise.analysis.pairing import LayerPairing as LayerPairing
from gatewise.analysis.pairing import Pairing as Pairing
from gatewise.analysis.pairing import pairing as pairing
from gatewise.analysis.partition import Partition as Partition
from gatewise.analysis.partition import Region as Region
from gatewise.analysis.partition import SoftPartition as SoftPartition
from gatewise.analysis.partition import partition as partition
from gatewise.analysis.path_kernel import path_kernel as path_kernel
from gatewise.analysis.paths import Paths as Paths
from gatewise.analysis.paths import paths as paths
from gatewise.analysis.properties import Properties as Properties
from gatewise.analysis.properties import properties as properties
from gatewise.analysis.properties import property_table as property_table
from gatewise.analysis.rademacher import Rademacher as Rademacher
from gatewise.analysis.rademacher import rademacher as rademacher
from gatewise.analysis.reconstruct import Reconstruction as Reconstruction
from gatewise.analysis.reconstruct import random_ratio as random_ratio
from gatewise.analysis.reconstruct import reconstruct as reconstruct
from gatewise.analysis.region_prior import LayerPrior as LayerPrior
from gatewise.analysis.region_prior import RegionPrior as RegionPrior
from gatewise.analysis.region_prior import region_prior as region_prior
from gatewise.analysis.spectrum import Spectrum as Spectrum
from gatewise.analysis.spectrum import ideal_spectrum as ideal_spectrum
from gatewise.analysis.spectrum import spectrum as spectrum
from gatewise.analysis.subnetworks import Subnetworks as Subnetworks
from gatewise.analysis.subnetworks import subnetworks as subnetworks
from gatewise.analysis.term_s_range import TermSRange as TermSRange
from gatewise.analysis.term_s_range import UnitTermS as UnitTermS
from gatewise.analysis.term_s_range import term_s_range as term_s_range

__all__ = [
    "QUESTIONS",
    "Advice",
    "AffineMap",
    "Alignment",
    "AlignmentTracker",
    "Answer",
    "Bundles",
    "Cost",
    "Diagnosis",
    "Film",
    "GateFlips",
    "GateOverlap",
    "Gates",
    "Invariance",
    "LayerInvariance",
    "LayerOrthogonality",
    "LayerPairing",
    "LayerPrior",
    "Neutralisation",
    "Orthogonality",
    "Pairing",
    "Partition",
    "Paths",
    "Properties",
    "Rademacher",
    "Reconstruction",
    "Region",
    "RegionPrior",
    "SiteCost",
    "SiteFlips",
    "SiteGates",
    "SoftPartition",
    "Spectrum",
    "Subnetworks",
    "TermSRange",
    "UnitTermS",
    "affine_map",
    "alignment",
    "bundle_kernel",
    "bundles",
    "corner_crops",
    "cost",
    "delta",
    "diagnose",
    "expected_products",
    "film",
    "gate_flips",
    "gate_overlap",
    "gates",
    "ideal_spectrum",
    "invariance",
    "neutralisation",
    "ntk",
    "ntk_routes",
    "orthogonality",
    "pairing",
    "partition",
    "path_kernel",
    "paths",
    "properties",
    "property_table",
    "rademacher",
    "random_ratio",
    "reconstruct",
    "region_prior",
    "spectrum",
    "subnetworks",
    "term_s_range",
]  # fmt: skip
