"""Kernels of the paths of gated networks: shared paths, bundles, gate adaptation."""

from gatewise.analysis.path_kernels.active_subnetworks import Subnetworks as Subnetworks
from gatewise.analysis.path_kernels.active_subnetworks import subnetworks as subnetworks
from gatewise.analysis.path_kernels.all_paths import Paths as Paths
from gatewise.analysis.path_kernels.all_paths import paths as paths
from gatewise.analysis.path_kernels.gate_learning import delta as delta
from gatewise.analysis.path_kernels.path_bundles import Bundles as Bundles
from gatewise.analysis.path_kernels.path_bundles import bundle_kernel as bundle_kernel
from gatewise.analysis.path_kernels.path_bundles import bundles as bundles
from gatewise.analysis.path_kernels.path_bundles import expected_products as expected_products
from gatewise.analysis.path_kernels.shared_paths import path_kernel as path_kernel
from gatewise.analysis.path_kernels.tangent_parts import KernelParts as KernelParts
from gatewise.analysis.path_kernels.tangent_parts import kernel_parts as kernel_parts
from gatewise.analysis.path_kernels.tangent_parts import wire_kernel as wire_kernel
