"""Run the command as ``python -m gatewise.cli``."""

from gatewise.cli import main

main()
