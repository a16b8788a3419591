"""Table 1: convergence of ResNet-14."""

from gatewise_papers.iieu.experiments.convergence import experiment

EXPERIMENT = experiment(14, 14)
