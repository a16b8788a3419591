"""Cai, 2023, "IIEU": the tables of its supplement that can be run here, each one experiment."""

from gatewise.papers.iieu import table1, table2, table3, table4, table5

EXPERIMENTS = tuple(each.EXPERIMENT for each in (table1, table2, table3, table4, table5))
