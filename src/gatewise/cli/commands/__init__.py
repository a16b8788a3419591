"""One module for each command of ``gatewise``."""

from gatewise.cli.commands.diagnose import NAMES as NAMES
