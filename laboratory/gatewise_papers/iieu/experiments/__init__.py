"""Cai, 2023, "IIEU": the tables of its supplement that can be run here."""

from gatewise_papers.common import experiments_in
from gatewise_papers.iieu.experiments.counting import agrees_as_printed as agrees_as_printed
from gatewise_papers.iieu.experiments.counting import count as count
from gatewise_papers.iieu.experiments.networks import NETWORKS as NETWORKS
from gatewise_papers.iieu.experiments.published import THROUGHPUT as THROUGHPUT

EXPERIMENTS = experiments_in(
    __name__,
    (
        "figure2",
        "table1",
        "table2",
        "table3",
        "table4",
        "table5",
        "table6",
        "table7",
        "cifar100",
    ),
)
