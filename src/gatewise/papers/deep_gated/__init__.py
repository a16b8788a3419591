"""Lakshminarayanan and Singh, 2020, "Deep Gated Networks".

Its figures and its table 4, each one experiment.
"""

from gatewise.papers.deep_gated import (
    figure1,
    figure2,
    figure3,
    figure4,
    figure5,
    figure6,
    figure7,
    figure8,
    figure10,
    table4,
)

EXPERIMENTS = tuple(
    each.EXPERIMENT
    for each in (
        figure1,
        figure2,
        figure3,
        figure4,
        figure5,
        figure6,
        figure7,
        figure8,
        figure10,
        table4,
    )
)
