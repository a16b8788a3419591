"""Cai, 2023, "IIEU": the tables of its supplement that can be run here."""

from gatewise.papers.common import experiments_in
from gatewise.papers.iieu.counting import agrees_as_printed as agrees_as_printed
from gatewise.papers.iieu.counting import count as count
from gatewise.papers.iieu.networks import NETWORKS as NETWORKS
from gatewise.papers.iieu.published import THROUGHPUT as THROUGHPUT

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
