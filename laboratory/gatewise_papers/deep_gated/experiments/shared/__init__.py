"""What the experiments of the paper share."""

from gatewise_papers.deep_gated.experiments.shared.binary_mnist import LEAST_TEST as LEAST_TEST
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import (
    TRAINING_CURVES as TRAINING_CURVES,
)
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import BinaryImages as BinaryImages
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import (
    BinaryMnistSettings as BinaryMnistSettings,
)
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import fit as fit
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import (
    fit_and_track as fit_and_track,
)
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import (
    fours_and_sevens as fours_and_sevens,
)
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import images as images
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import network as network
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import nu_line as nu_line
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import read_mnist as read_mnist
from gatewise_papers.deep_gated.experiments.shared.binary_mnist import (
    with_gates_of as with_gates_of,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    expected_gate_kernel as expected_gate_kernel,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    expected_kernel as expected_kernel,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    expected_linear_kernel as expected_linear_kernel,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    expected_overlap as expected_overlap,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    gate_overlaps as gate_overlaps,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    largest_gate_overlap as largest_gate_overlap,
)
from gatewise_papers.deep_gated.experiments.shared.closed_forms import (
    linear_kernel_variance as linear_kernel_variance,
)
from gatewise_papers.deep_gated.experiments.shared.frozen_start import DEPTHS as DEPTHS
from gatewise_papers.deep_gated.experiments.shared.frozen_start import STEP as STEP
from gatewise_papers.deep_gated.experiments.shared.frozen_start import DepthCells as DepthCells
from gatewise_papers.deep_gated.experiments.shared.frozen_start import depth_rows as depth_rows
from gatewise_papers.deep_gated.experiments.shared.frozen_start import depth_trend as depth_trend
from gatewise_papers.deep_gated.experiments.shared.frozen_start import descend as descend
from gatewise_papers.deep_gated.experiments.shared.frozen_start import final_ratios as final_ratios
from gatewise_papers.deep_gated.experiments.shared.frozen_start import in_words as in_words
from gatewise_papers.deep_gated.experiments.shared.frozen_start import inputs as inputs
from gatewise_papers.deep_gated.experiments.shared.frozen_start import kernel as kernel
from gatewise_papers.deep_gated.experiments.shared.frozen_start import ratio_panel as ratio_panel
from gatewise_papers.deep_gated.experiments.shared.frozen_start import (
    spectrum_panel as spectrum_panel,
)
from gatewise_papers.deep_gated.experiments.shared.frozen_start import start as start
from gatewise_papers.deep_gated.experiments.shared.frozen_start import steps_until as steps_until
from gatewise_papers.deep_gated.experiments.shared.frozen_start import whiteness as whiteness
from gatewise_papers.deep_gated.experiments.shared.gated_cnn import DESK_CNN as DESK_CNN
from gatewise_papers.deep_gated.experiments.shared.gated_cnn import REDUCED as REDUCED
from gatewise_papers.deep_gated.experiments.shared.gated_cnn import TINY_CNN as TINY_CNN
from gatewise_papers.deep_gated.experiments.shared.randomness import generator as generator
from gatewise_papers.deep_gated.experiments.shared.randomness import orders as orders
from gatewise_papers.deep_gated.experiments.shared.randomness import uniform as uniform
