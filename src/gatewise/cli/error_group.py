"""How commands end: our own errors become one red line and an exit code, never a traceback."""

from typing import Any

import typer
from typer.core import TyperGroup

from gatewise.cli.output import print_error
from gatewise.errors import ContractError, GatewiseError

CHECK_FAILED, BAD_INPUT = 1, 2


class Group(TyperGroup):
    """Commands that report :class:`GatewiseError` in one line.

    Exit 1 for a failed check, 2 for bad input.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GatewiseError as error:
            print_error(str(error))
            raise typer.Exit(
                CHECK_FAILED if isinstance(error, ContractError) else BAD_INPUT
            ) from None
