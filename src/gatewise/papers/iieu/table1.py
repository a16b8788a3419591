"""Table 1: convergence of ResNet-14."""

from gatewise.papers.iieu.convergence import SMALLER, experiment
from gatewise.papers.iieu.networks import NETWORKS

EXPERIMENT = experiment(14, tuple(NETWORKS), SMALLER)
