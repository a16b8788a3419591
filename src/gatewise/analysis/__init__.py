"""Questions asked of any network, one file each."""

from gatewise.analysis.bundles import Bundles as Bundles
from gatewise.analysis.bundles import bundle_kernel as bundle_kernel
from gatewise.analysis.bundles import bundles as bundles
from gatewise.analysis.bundles import expected_products as expected_products
from gatewise.analysis.delta import delta as delta
from gatewise.analysis.path_kernel import path_kernel as path_kernel
from gatewise.analysis.paths import Paths as Paths
from gatewise.analysis.paths import paths as paths
from gatewise.analysis.subnetworks import Subnetworks as Subnetworks
from gatewise.analysis.subnetworks import subnetworks as subnetworks

__all__ = [
    "Bundles",
    "Paths",
    "Subnetworks",
    "bundle_kernel",
    "bundles",
    "delta",
    "expected_products",
    "path_kernel",
    "paths",
    "subnetworks",
]
