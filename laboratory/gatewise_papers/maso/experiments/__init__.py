"""Balestriero and Baraniuk, 2019, "From Hard to Soft": its tables and its figure."""

from gatewise_papers.common import experiments_in

EXPERIMENTS = experiments_in(__name__, ("table1", "table2", "figure1", "beta_forms"))
