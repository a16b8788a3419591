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
# A keyword argument as messages write it: name=COLUMN, mode="max", seeds=8, where= or rates=[1, 2].
_KEYWORD = re.compile(
    r"""\b([a-z_]+)=("[^"]*"|'[^']*'|\[[^\]]*\]|[\w./-]*[\w/-]|\.\.\.)?(, (?=[a-z_]+=))?"""
)
UNIT_OPTION = "option"  # the argument that takes the options of a unit as KEY=VALUE
QUOTES = "\"'"
REPEATED = ("average", "task", "value")  # lists that are an option for each entry
IN_PYTHON = " (an argument in Python)"


def as_options(text: str, options: Mapping[str, str]) -> str:
    """Return a text with options in place of keyword arguments.

    ``seed=COLUMN`` becomes ``--seed COLUMN``, and ``allow_inexact=True`` ``--allow-inexact``. An
    argument that is no option of the command is one of the unit, if the command takes these, as
    ``--option hidden=matched``. Otherwise the text says that it is Python.

    Args:
        text: One sentence.
        options: The options of the command, by the names of arguments.
    """
    unknown = False

    def option(match: re.Match[str]) -> str:
        nonlocal unknown
        name, value, comma = match[1], match[2], match[3]
        flag = options.get(name)
        if flag is None and value and UNIT_OPTION in options:
            value = {"True": "true", "False": "false"}.get(value, value.strip(QUOTES + "[]"))
            return f"{options[UNIT_OPTION]} {name}={value}"
        if flag is None:
            unknown = True
            return match[0]
        words = flag
        if value == "False":
            words = options.get(f"no_{name}", f"no {flag}")
        elif value not in (None, "True"):
            entries = [entry.strip(QUOTES) for entry in value.strip("[]").split(", ")]
            if name not in REPEATED:
                entries = [",".join(entries)]
            words = " ".join(f"{flag} {shlex.quote(entry)}" for entry in entries)
        return f"{words} " if comma else words

    translated = _KEYWORD.sub(option, text)
    return translated + IN_PYTHON if unknown else translated


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

        def revive(self) -> str:
            """Return the command that gives dead units new weights."""
            return self.diagnose(revive="revived.safetensors")

        def gates(self) -> str:
            """Return the command that lists what each channel does."""
            return self.diagnose(questions="gates", json=True)

        def merge_pairs(self) -> str:
            """Return nothing: no command merges filters."""
            return ""

        def fuse(self) -> str:
            """Return nothing: no command fuses activations."""
            return ""

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
