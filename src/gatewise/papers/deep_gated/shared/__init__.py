"""gatewise.papers.deep_gated.shared."""

from gatewise.papers.deep_gated.shared.aligning import final as final
from gatewise.papers.deep_gated.shared.aligning import fit_and_track as fit_and_track
from gatewise.papers.deep_gated.shared.aligning import nu_lines as nu_lines
from gatewise.papers.deep_gated.shared.binary_mnist import Fours7s as Fours7s
from gatewise.papers.deep_gated.shared.binary_mnist import Settings as Settings
from gatewise.papers.deep_gated.shared.binary_mnist import fit as fit
from gatewise.papers.deep_gated.shared.binary_mnist import fours_and_sevens as fours_and_sevens
from gatewise.papers.deep_gated.shared.binary_mnist import network as network
from gatewise.papers.deep_gated.shared.binary_mnist import with_gates_of as with_gates_of
from gatewise.papers.deep_gated.shared.closed_forms import (
    expected_gate_kernel as expected_gate_kernel,
)
from gatewise.papers.deep_gated.shared.closed_forms import expected_kernel as expected_kernel
from gatewise.papers.deep_gated.shared.closed_forms import (
    expected_linear_kernel as expected_linear_kernel,
)
from gatewise.papers.deep_gated.shared.closed_forms import expected_overlap as expected_overlap
from gatewise.papers.deep_gated.shared.closed_forms import (
    linear_kernel_variance as linear_kernel_variance,
)
from gatewise.papers.deep_gated.shared.frozen_start import DEPTHS as DEPTHS
from gatewise.papers.deep_gated.shared.frozen_start import STEP as STEP
from gatewise.papers.deep_gated.shared.frozen_start import convergence as convergence
from gatewise.papers.deep_gated.shared.frozen_start import inputs as inputs
from gatewise.papers.deep_gated.shared.frozen_start import kernel as kernel
from gatewise.papers.deep_gated.shared.frozen_start import start as start
from gatewise.papers.deep_gated.shared.many_seeds import ManySeeds as ManySeeds
from gatewise.papers.deep_gated.shared.many_seeds import descend as descend
from gatewise.papers.deep_gated.shared.many_seeds import half_squared_error as half_squared_error
from gatewise.papers.deep_gated.shared.many_seeds import mean_squared_error as mean_squared_error
from gatewise.papers.deep_gated.shared.many_seeds import shares as shares
from gatewise.papers.deep_gated.shared.many_seeds import train as train
from gatewise.papers.deep_gated.shared.mnist_images import images as images
from gatewise.papers.deep_gated.shared.randomness import generator as generator
from gatewise.papers.deep_gated.shared.randomness import orders as orders
from gatewise.papers.deep_gated.shared.randomness import uniform as uniform
from gatewise.papers.deep_gated.shared.spectra_and_rates import Cells as Cells
from gatewise.papers.deep_gated.shared.spectra_and_rates import curves as curves
from gatewise.papers.deep_gated.shared.spectra_and_rates import falls as falls
from gatewise.papers.deep_gated.shared.spectra_and_rates import final_ratios as final_ratios
from gatewise.papers.deep_gated.shared.spectra_and_rates import listed as listed
from gatewise.papers.deep_gated.shared.spectra_and_rates import ratios as ratios
from gatewise.papers.deep_gated.shared.spectra_and_rates import rows as rows
from gatewise.papers.deep_gated.shared.spectra_and_rates import whiteness as whiteness
