"""Shang et al., 2016, "Concatenated Rectified Linear Units"."""
