"""gatewise.cli.commands."""

from gatewise.cli.commands.diagnose import NAMES as NAMES
