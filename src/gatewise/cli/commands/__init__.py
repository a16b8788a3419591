"""One module for each command of ``gatewise``."""
