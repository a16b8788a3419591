"""Questions asked of a model or its kernel, one file each."""

from gatewise.analysis.alignment import Alignment as Alignment
from gatewise.analysis.alignment import alignment as alignment
from gatewise.analysis.spectrum import Spectrum as Spectrum
from gatewise.analysis.spectrum import ideal_spectrum as ideal_spectrum
from gatewise.analysis.spectrum import spectrum as spectrum

__all__ = ["Alignment", "Spectrum", "alignment", "ideal_spectrum", "spectrum"]
