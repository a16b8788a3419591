"""Questions asked of a model or its kernel, one file each."""

from gatewise.analysis.alignment import Alignment as Alignment
from gatewise.analysis.alignment import alignment as alignment
from gatewise.analysis.orthogonality import LayerOrthogonality as LayerOrthogonality
from gatewise.analysis.orthogonality import Orthogonality as Orthogonality
from gatewise.analysis.orthogonality import orthogonality as orthogonality
from gatewise.analysis.pairing import LayerPairing as LayerPairing
from gatewise.analysis.pairing import Pairing as Pairing
from gatewise.analysis.pairing import pairing as pairing
from gatewise.analysis.reconstruct import Reconstruction as Reconstruction
from gatewise.analysis.reconstruct import random_ratio as random_ratio
from gatewise.analysis.reconstruct import reconstruct as reconstruct
from gatewise.analysis.spectrum import Spectrum as Spectrum
from gatewise.analysis.spectrum import ideal_spectrum as ideal_spectrum
from gatewise.analysis.spectrum import spectrum as spectrum

__all__ = ["Alignment", "Spectrum", "alignment", "ideal_spectrum", "spectrum"]
