"""How commands end: an error of gatewise is printed as one red line, without a traceback."""

from typing import Any

import typer
from typer.core import TyperGroup

from gatewise.cli.output import print_error
from gatewise.errors import ContractError, GatewiseError

CHECK_FAILED = 1
BAD_INPUT = 2


class Group(TyperGroup):
    """A group of commands that prints :class:`GatewiseError` in one line.

    The exit code is 1 for a failed check and 2 for invalid input.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GatewiseError as error:
            print_error(str(error))
            code = CHECK_FAILED if isinstance(error, ContractError) else BAD_INPUT
            raise typer.Exit(code) from None
