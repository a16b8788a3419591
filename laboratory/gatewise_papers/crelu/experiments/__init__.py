"""Shang et al., 2016, "Concatenated Rectified Linear Units": tables, figures and theorems."""

from gatewise_papers.common import experiments_in
from gatewise_papers.crelu.experiments.figure6 import nearness as nearness
from gatewise_papers.crelu.experiments.shared import CONVPOOL as CONVPOOL
from gatewise_papers.crelu.experiments.shared import EDGES as EDGES
from gatewise_papers.crelu.experiments.shared import TABLE1 as TABLE1
from gatewise_papers.crelu.experiments.shared import CifarSettings as CifarSettings
from gatewise_papers.crelu.experiments.shared import ErrorSettings as ErrorSettings
from gatewise_papers.crelu.experiments.shared import centred as centred
from gatewise_papers.crelu.experiments.shared import configuration as configuration
from gatewise_papers.crelu.experiments.shared import densities as densities
from gatewise_papers.crelu.experiments.shared import errors as errors
from gatewise_papers.crelu.experiments.shared import folded as folded
from gatewise_papers.crelu.experiments.shared import initial_network as initial_network
from gatewise_papers.crelu.experiments.shared import inverted as inverted
from gatewise_papers.crelu.experiments.shared import mosaic as mosaic
from gatewise_papers.crelu.experiments.shared import paired_layers as paired_layers

EXPERIMENTS = experiments_in(
    __name__,
    (
        "table1",
        "table2",
        "table4",
        "table5",
        "table6",
        "figure2",
        "figure4",
        "figure5",
        "figure6",
        "theorem2_2",
        "theorem4_1",
    ),
)
