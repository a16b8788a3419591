"""Measures of a kernel matrix: its spectrum, and its alignment with labels."""

from gatewise.analysis.kernel_measures.eigenvalues import Spectrum as Spectrum
from gatewise.analysis.kernel_measures.eigenvalues import ideal_spectrum as ideal_spectrum
from gatewise.analysis.kernel_measures.eigenvalues import spectrum as spectrum
from gatewise.analysis.kernel_measures.label_alignment import Alignment as Alignment
from gatewise.analysis.kernel_measures.label_alignment import alignment as alignment
from gatewise.analysis.kernel_measures.tracker import AlignmentTracker as AlignmentTracker
