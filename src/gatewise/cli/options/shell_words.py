"""What Python says with calls, as commands: the advice of a diagnosis, and the fix of an error."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gatewise.errors import Limitation

if TYPE_CHECKING:
    from gatewise.analysis import Commands

# What a check needs besides, by the reason why it was not made.
MORE_INPUTS: Mapping[str | None, str] = {
    Limitation.NO_REAL_INPUTS: "Add `--data`.",
    Limitation.NO_CHECKPOINTS: "Add `--checkpoints RUN`.",
}
_KEYWORD = re.compile(r"\b([a-z_]+)=(True|[A-Z]+)\b")


def as_options(text: str) -> str:
    """Return a text with options in place of keyword arguments.

    ``seed=COLUMN`` becomes ``--seed COLUMN``, and ``allow_inexact=True`` ``--allow-inexact``.
    """

    def option(match: re.Match[str]) -> str:
        name = f"--{match[1].replace('_', '-')}"
        return name if match[2] == "True" else f"{name} {match[2]}"

    return _KEYWORD.sub(option, text)


def advised_commands(reference: str, data: str) -> "Commands":
    """Return how the advice of ``gatewise diagnose`` says what to do.

    Args:
        reference: The model on the command line, with its options.
        data: The options that name the inputs.
    """
    from gatewise.analysis import Commands

    class ShellCommands(Commands):
        """Commands of ``gatewise`` in place of calls."""

        def swap(
            self, unit: str, where: Sequence[str], *, dry_run: bool = False, **options: Any
        ) -> str:
            """Return the command that swaps, or that shows the plan."""
            last = ["--dry-run"] if dry_run else ["--out", f"{unit}.safetensors"]
            words = ["--unit", unit, *_flags(options)]
            for pattern in where:
                words += ["--where", pattern]
            return f"gatewise swap {reference} {shlex.join([*words, *last])}"

        def diagnose(self, **options: Any) -> str:
            """Return the command that diagnoses the model again."""
            return f"gatewise diagnose {reference} {data} {shlex.join(_flags(options))}"

    return ShellCommands()


def _flags(options: Mapping[str, Any]) -> list[str]:
    """Return keyword arguments as words of a command."""
    words = []
    for name, value in options.items():
        words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            words.append(",".join(value))
        elif value is not True:
            words.append(str(value))
    return words
