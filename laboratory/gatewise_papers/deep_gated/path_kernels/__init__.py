"""Kernels of the paths of gated networks: shared paths, bundles, gate adaptation."""

from gatewise_papers.deep_gated.path_kernels.active_subnetworks import Subnetworks as Subnetworks
from gatewise_papers.deep_gated.path_kernels.active_subnetworks import subnetworks as subnetworks
from gatewise_papers.deep_gated.path_kernels.all_paths import Paths as Paths
from gatewise_papers.deep_gated.path_kernels.all_paths import paths as paths
from gatewise_papers.deep_gated.path_kernels.gate_learning import delta as delta
from gatewise_papers.deep_gated.path_kernels.path_bundles import Bundles as Bundles
from gatewise_papers.deep_gated.path_kernels.path_bundles import bundle_kernel as bundle_kernel
from gatewise_papers.deep_gated.path_kernels.path_bundles import bundles as bundles
from gatewise_papers.deep_gated.path_kernels.path_bundles import (
    expected_products as expected_products,
)
from gatewise_papers.deep_gated.path_kernels.shared_paths import path_kernel as path_kernel
from gatewise_papers.deep_gated.path_kernels.tangent_parts import KernelParts as KernelParts
from gatewise_papers.deep_gated.path_kernels.tangent_parts import kernel_parts as kernel_parts
from gatewise_papers.deep_gated.path_kernels.tangent_parts import wire_kernel as wire_kernel
