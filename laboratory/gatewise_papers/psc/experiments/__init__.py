"""Lin et al., 2021, "Phase Selective Convolution": what its supplement proves, measured."""

from gatewise_papers.common import experiments_in
from gatewise_papers.psc.experiments.absolute_value import error as error
from gatewise_papers.psc.experiments.absolute_value import least_squares as least_squares
from gatewise_papers.psc.experiments.absolute_value import train_fit as train_fit

EXPERIMENTS = experiments_in(__name__, ("lower_bound", "cifar10"))
