"""Lakshminarayanan and Singh, 2020, "Deep Gated Networks": figures, Experiment 6, Table 4."""

from gatewise_papers.common import experiments_in
from gatewise_papers.deep_gated.experiments.shared import BinaryImages as BinaryImages
from gatewise_papers.deep_gated.experiments.shared import descend as descend
from gatewise_papers.deep_gated.experiments.shared import (
    expected_gate_kernel as expected_gate_kernel,
)
from gatewise_papers.deep_gated.experiments.shared import expected_kernel as expected_kernel
from gatewise_papers.deep_gated.experiments.shared import (
    expected_linear_kernel as expected_linear_kernel,
)
from gatewise_papers.deep_gated.experiments.shared import expected_overlap as expected_overlap
from gatewise_papers.deep_gated.experiments.shared import fours_and_sevens as fours_and_sevens
from gatewise_papers.deep_gated.experiments.shared import gate_overlaps as gate_overlaps
from gatewise_papers.deep_gated.experiments.shared import generator as generator
from gatewise_papers.deep_gated.experiments.shared import inputs as inputs
from gatewise_papers.deep_gated.experiments.shared import kernel as kernel
from gatewise_papers.deep_gated.experiments.shared import (
    largest_gate_overlap as largest_gate_overlap,
)
from gatewise_papers.deep_gated.experiments.shared import (
    linear_kernel_variance as linear_kernel_variance,
)
from gatewise_papers.deep_gated.experiments.shared import orders as orders
from gatewise_papers.deep_gated.experiments.shared import start as start
from gatewise_papers.deep_gated.experiments.shared import steps_until as steps_until
from gatewise_papers.deep_gated.experiments.shared import uniform as uniform

EXPERIMENTS = experiments_in(
    __name__,
    (
        "experiment6",
        "figure1",
        "figure2",
        "figure3",
        "figure4",
        "figure5",
        "figure6",
        "figure7",
        "figure8",
        "figure10",
        "table4",
    ),
)
