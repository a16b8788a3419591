"""Measures of a kernel matrix: its spectrum, and its alignment with labels."""

from gatewise.analysis.kernel_measures.eigenvalues import Spectrum as Spectrum
from gatewise.analysis.kernel_measures.eigenvalues import spectrum as spectrum
from gatewise.analysis.kernel_measures.kernel_matrix import check_kernel as check_kernel
from gatewise.analysis.kernel_measures.kernel_matrix import check_semidefinite as check_semidefinite
