"""What the experiments of the paper share."""

from gatewise.papers.deep_gated.shared.binary_mnist import LEAST_TEST as LEAST_TEST
from gatewise.papers.deep_gated.shared.binary_mnist import TRAINING_CURVES as TRAINING_CURVES
from gatewise.papers.deep_gated.shared.binary_mnist import BinaryImages as BinaryImages
from gatewise.papers.deep_gated.shared.binary_mnist import (
    BinaryMnistSettings as BinaryMnistSettings,
)
from gatewise.papers.deep_gated.shared.binary_mnist import fit as fit
from gatewise.papers.deep_gated.shared.binary_mnist import fit_and_track as fit_and_track
from gatewise.papers.deep_gated.shared.binary_mnist import fours_and_sevens as fours_and_sevens
from gatewise.papers.deep_gated.shared.binary_mnist import images as images
from gatewise.papers.deep_gated.shared.binary_mnist import network as network
from gatewise.papers.deep_gated.shared.binary_mnist import nu_line as nu_line
from gatewise.papers.deep_gated.shared.binary_mnist import read_mnist as read_mnist
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
from gatewise.papers.deep_gated.shared.frozen_start import DepthCells as DepthCells
from gatewise.papers.deep_gated.shared.frozen_start import convergence as convergence
from gatewise.papers.deep_gated.shared.frozen_start import depth_rows as depth_rows
from gatewise.papers.deep_gated.shared.frozen_start import depth_trend as depth_trend
from gatewise.papers.deep_gated.shared.frozen_start import final_ratios as final_ratios
from gatewise.papers.deep_gated.shared.frozen_start import in_words as in_words
from gatewise.papers.deep_gated.shared.frozen_start import inputs as inputs
from gatewise.papers.deep_gated.shared.frozen_start import kernel as kernel
from gatewise.papers.deep_gated.shared.frozen_start import ratio_panel as ratio_panel
from gatewise.papers.deep_gated.shared.frozen_start import spectrum_panel as spectrum_panel
from gatewise.papers.deep_gated.shared.frozen_start import start as start
from gatewise.papers.deep_gated.shared.frozen_start import steps_until as steps_until
from gatewise.papers.deep_gated.shared.frozen_start import whiteness as whiteness
from gatewise.papers.deep_gated.shared.gated_cnn import DESK_CNN as DESK_CNN
from gatewise.papers.deep_gated.shared.gated_cnn import TINY_CNN as TINY_CNN
from gatewise.papers.deep_gated.shared.randomness import generator as generator
from gatewise.papers.deep_gated.shared.randomness import orders as orders
from gatewise.papers.deep_gated.shared.randomness import uniform as uniform
