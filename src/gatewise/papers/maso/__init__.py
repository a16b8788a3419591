"""Balestriero and Baraniuk, 2019, "From Hard to Soft": its experiment with orthogonal filters."""

from gatewise.papers.maso import table2

EXPERIMENTS = (table2.EXPERIMENT,)
