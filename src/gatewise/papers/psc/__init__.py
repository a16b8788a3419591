"""Lin et al., 2021, "Phase Selective Convolution": what its supplement proves, measured."""

from gatewise.papers.psc import lower_bound
from gatewise.papers.psc.absolute_value import error as error
from gatewise.papers.psc.absolute_value import least_squares as least_squares
from gatewise.papers.psc.absolute_value import trained as trained

EXPERIMENTS = (lower_bound.EXPERIMENT,)
