"""Questions asked of a model or of its kernel, one file each."""

from gatewise.analysis.alignment import Alignment as Alignment
from gatewise.analysis.alignment import alignment as alignment
from gatewise.analysis.alignment_tracker import AlignmentTracker as AlignmentTracker
from gatewise.analysis.ntk import ntk as ntk
from gatewise.analysis.ntk import ntk_routes as ntk_routes
from gatewise.analysis.spectrum import Spectrum as Spectrum
from gatewise.analysis.spectrum import ideal_spectrum as ideal_spectrum
from gatewise.analysis.spectrum import spectrum as spectrum

__all__ = [
    "Alignment",
    "AlignmentTracker",
    "Spectrum",
    "alignment",
    "ideal_spectrum",
    "ntk",
    "ntk_routes",
    "spectrum",
]
