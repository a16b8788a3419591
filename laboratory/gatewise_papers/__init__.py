"""The experiments of five papers on activation functions, and all that only their readers need."""

__version__ = "0.1.0"
