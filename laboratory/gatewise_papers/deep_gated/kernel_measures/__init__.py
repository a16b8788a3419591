"""How kernels align with labels and how that changes in training, and their ideal spectrum."""

from gatewise_papers.deep_gated.kernel_measures.ideal_eigenvalues import (
    ideal_spectrum as ideal_spectrum,
)
from gatewise_papers.deep_gated.kernel_measures.label_alignment import Alignment as Alignment
from gatewise_papers.deep_gated.kernel_measures.label_alignment import alignment as alignment
from gatewise_papers.deep_gated.kernel_measures.tracker import AlignmentTracker as AlignmentTracker
