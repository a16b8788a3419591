"""``python -m gatewise.cli``."""

from gatewise.cli import main

main()
