"""Table 2: convergence of ResNet-26."""

from gatewise_papers.iieu.experiments.convergence import experiment

EXPERIMENT = experiment(26, 26)
