"""Lakshminarayanan and Singh, 2020, "Deep Gated Networks"."""

EXPERIMENTS = ()
