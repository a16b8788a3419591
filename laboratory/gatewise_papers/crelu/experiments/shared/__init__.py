"""What the experiments of the paper share."""

from gatewise_papers.crelu.experiments.shared import alexnet as alexnet
from gatewise_papers.crelu.experiments.shared.inversion import inverted as inverted
from gatewise_papers.crelu.experiments.shared.layer_tables import Layers as Layers
from gatewise_papers.crelu.experiments.shared.layer_tables import parameters as parameters
from gatewise_papers.crelu.experiments.shared.layer_tables import (
    with_third_layer as with_third_layer,
)
from gatewise_papers.crelu.experiments.shared.pair_histograms import EDGES as EDGES
from gatewise_papers.crelu.experiments.shared.pair_histograms import FEWEST_DRAWS as FEWEST_DRAWS
from gatewise_papers.crelu.experiments.shared.pair_histograms import Layer as Layer
from gatewise_papers.crelu.experiments.shared.pair_histograms import (
    correlation_rows as correlation_rows,
)
from gatewise_papers.crelu.experiments.shared.pair_histograms import densities as densities
from gatewise_papers.crelu.experiments.shared.pair_histograms import depth_panel as depth_panel
from gatewise_papers.crelu.experiments.shared.pair_histograms import histogram as histogram
from gatewise_papers.crelu.experiments.shared.pair_histograms import in_words as in_words
from gatewise_papers.crelu.experiments.shared.pair_histograms import paired_layers as paired_layers
from gatewise_papers.crelu.experiments.shared.pictures import centred as centred
from gatewise_papers.crelu.experiments.shared.pictures import mosaic as mosaic
from gatewise_papers.crelu.experiments.shared.protocol import ErrorCells as ErrorCells
from gatewise_papers.crelu.experiments.shared.protocol import ErrorSettings as ErrorSettings
from gatewise_papers.crelu.experiments.shared.protocol import ErrorTable as ErrorTable
from gatewise_papers.crelu.experiments.shared.protocol import Measurements as Measurements
from gatewise_papers.crelu.experiments.shared.protocol import cell_name as cell_name
from gatewise_papers.crelu.experiments.shared.protocol import error_panel as error_panel
from gatewise_papers.crelu.experiments.shared.protocol import error_rows as error_rows
from gatewise_papers.crelu.experiments.shared.protocol import errors_of as errors_of
from gatewise_papers.crelu.experiments.shared.protocol import fit_rows as fit_rows
from gatewise_papers.crelu.experiments.shared.training import CIFAR as CIFAR
from gatewise_papers.crelu.experiments.shared.training import CONVPOOL as CONVPOOL
from gatewise_papers.crelu.experiments.shared.training import FOUR_LAYER_DATA as FOUR_LAYER_DATA
from gatewise_papers.crelu.experiments.shared.training import FOUR_LAYER_FORMS as FOUR_LAYER_FORMS
from gatewise_papers.crelu.experiments.shared.training import FOUR_LAYER_MODEL as FOUR_LAYER_MODEL
from gatewise_papers.crelu.experiments.shared.training import FOUR_LAYERS as FOUR_LAYERS
from gatewise_papers.crelu.experiments.shared.training import INSTEAD as INSTEAD
from gatewise_papers.crelu.experiments.shared.training import INVARIANCE as INVARIANCE
from gatewise_papers.crelu.experiments.shared.training import NEEDS as NEEDS
from gatewise_papers.crelu.experiments.shared.training import PAIRS as PAIRS
from gatewise_papers.crelu.experiments.shared.training import RATIOS as RATIOS
from gatewise_papers.crelu.experiments.shared.training import TABLE1 as TABLE1
from gatewise_papers.crelu.experiments.shared.training import TINY as TINY
from gatewise_papers.crelu.experiments.shared.training import CifarSettings as CifarSettings
from gatewise_papers.crelu.experiments.shared.training import Form as Form
from gatewise_papers.crelu.experiments.shared.training import configuration as configuration
from gatewise_papers.crelu.experiments.shared.training import errors as errors
from gatewise_papers.crelu.experiments.shared.training import folded as folded
from gatewise_papers.crelu.experiments.shared.training import initial_network as initial_network
from gatewise_papers.crelu.experiments.shared.training import levels_of as levels_of
from gatewise_papers.crelu.experiments.shared.training import network_inputs as network_inputs
from gatewise_papers.crelu.experiments.shared.training import trained_network as trained_network
