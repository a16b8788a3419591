"""Lin et al., 2021, "Phase Selective Convolution": what its supplement proves, measured."""

from gatewise.papers.psc import lower_bound

EXPERIMENTS = (lower_bound.EXPERIMENT,)
