"""Table 2: convergence of ResNet-26."""

from gatewise.papers.iieu.convergence import experiment

EXPERIMENT = experiment(26, 26)
