"""Table 2: convergence of ResNet-26."""

from gatewise.papers.iieu.convergence import SMALLER, experiment

SOME = ("ReLU", "Swish", "Meta-ACON", "IIEU-B", "IIEU-DC")
EXPERIMENT = experiment(26, SOME, f"{SMALLER}; five of the fifteen activations")
