"""Shang et al., 2016, "Concatenated Rectified Linear Units": tables, figures and theorems."""

from gatewise.papers.common import experiments_in
from gatewise.papers.crelu.figure6 import nearness as nearness

EXPERIMENTS = experiments_in(
    __name__,
    (
        "table1",
        "table2",
        "table4",
        "table5",
        "table6",
        "figure2",
        "figure4",
        "figure5",
        "figure6",
        "theorem2_2",
        "theorem4_1",
    ),
)
