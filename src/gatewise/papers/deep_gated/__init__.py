"""Lakshminarayanan and Singh, 2020, "Deep Gated Networks": figures, Experiment 6, Table 4."""

from gatewise.papers.common import experiments_in

EXPERIMENTS = experiments_in(
    __name__,
    (
        "experiment6",
        "figure1",
        "figure2",
        "figure3",
        "figure4",
        "figure5",
        "figure6",
        "figure7",
        "figure8",
        "figure10",
        "table4",
    ),
)
