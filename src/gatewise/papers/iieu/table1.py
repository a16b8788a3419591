"""Table 1: convergence of ResNet-14."""

from gatewise.papers.iieu.convergence import experiment

EXPERIMENT = experiment(14, 14)
