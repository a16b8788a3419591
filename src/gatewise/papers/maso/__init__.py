"""Balestriero and Baraniuk, 2019, "From Hard to Soft": its experiment with orthogonal filters."""

from gatewise.papers.common import experiments_in

EXPERIMENTS = experiments_in(__name__, ("table2",))
