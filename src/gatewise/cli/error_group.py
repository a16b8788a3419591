"""Groups of commands: how their help looks, and how errors of gatewise end a command."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from gatewise.cli.options import as_options
from gatewise.cli.output import print_error
from gatewise.errors import ContractError, GatewiseError, closest_name
from gatewise.extensions import extension_commands, in_papers, unknown_addition

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
            options = named_options(self.get_command(ctx, ctx.invoked_subcommand or ""))
            print_error(error.fix_first(lambda fix: as_options(fix, options)))
            code = CHECK_FAILED if isinstance(error, ContractError) else BAD_INPUT
            raise typer.Exit(code) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands, those of installed packages last."""
        more = extension_commands() if ctx.parent is None else {}
        return [*super().list_commands(ctx), *sorted(more)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command of gatewise, or of an installed package."""
        command = super().get_command(ctx, cmd_name)
        if command is None and ctx.parent is None:
            point = extension_commands().get(cmd_name)
            if point is not None:
                return _as_command(cmd_name, point.load())
            if in_papers("commands", cmd_name):
                raise unknown_addition("commands", "command", cmd_name, ())
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        self.suggest_commands = bool(args) and closest_name(args[0], self.commands) is not None
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands in sections, each with the whole first sentence of its help."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                title = getattr(command, "rich_help_panel", None)
                row = (name, command.get_short_help_str(limit=1000))
                sections.setdefault(title if isinstance(title, str) else "Commands", []).append(row)
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def named_options(command: Any) -> dict[str, str]:
    """Return the options of a command by the names of arguments in Python.

    Args:
        command: One of the application's.
    """
    options = {}
    for parameter in command.params:
        for flag in (*parameter.opts, *parameter.secondary_opts):
            if flag.startswith("--"):
                options[flag.removeprefix("--").replace("-", "_")] = flag
    return options


def _as_command(name: str, function: Callable[..., Any]) -> Any:
    """Return a function of another package as a command."""
    application = typer.Typer(add_completion=False, rich_markup_mode=None)
    application.command(name, rich_help_panel="From other packages")(function)
    return typer.main.get_command(application)
