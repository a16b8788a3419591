"""Lakshminarayanan and Singh, 2020, "Deep Gated Networks": its figures and its Table 4."""

from gatewise.papers.common import experiments_in

EXPERIMENTS = experiments_in(
    __name__,
    (
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
