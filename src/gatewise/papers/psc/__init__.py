"""Lin et al., 2021, "Phase Selective Convolution": what its supplement proves, measured."""

from gatewise.papers.common import experiments_in
from gatewise.papers.psc.absolute_value import error as error
from gatewise.papers.psc.absolute_value import least_squares as least_squares
from gatewise.papers.psc.absolute_value import train_fit as train_fit

EXPERIMENTS = experiments_in(__name__, ("lower_bound", "cifar10"))
