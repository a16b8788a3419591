"""Shang et al., 2016, "Concatenated Rectified Linear Units".

Its tables and figures, each one experiment.
"""

from gatewise.papers.crelu import figure2, figure4, figure5, figure6, table1, table2, table5, table6
from gatewise.papers.crelu.figure6 import nearness as nearness

EXPERIMENTS = tuple(
    each.EXPERIMENT for each in (table1, table2, table5, table6, figure2, figure4, figure5, figure6)
)
