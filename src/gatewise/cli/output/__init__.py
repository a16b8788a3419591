"""What commands print: tables, curves, progress and messages."""

import importlib
from typing import TYPE_CHECKING

from gatewise.cli.output.diagnosis_progress import Watch as Watch
from gatewise.cli.output.terminal import check_target as check_target
from gatewise.cli.output.terminal import console as console
from gatewise.cli.output.terminal import print_error as print_error
from gatewise.cli.output.terminal import print_json as print_json
from gatewise.cli.output.terminal import print_note as print_note
from gatewise.cli.output.terminal import print_rich as print_rich
from gatewise.cli.output.terminal import progress as progress
from gatewise.cli.output.terminal import table as table

if TYPE_CHECKING:
    from gatewise.cli.output.curves import EVEN as EVEN
    from gatewise.cli.output.curves import evaluate as evaluate
    from gatewise.cli.output.curves import sweep as sweep
    from gatewise.cli.output.measured_errors import one_thread as one_thread
    from gatewise.cli.output.unit_facts import channels as channels
    from gatewise.cli.output.unit_facts import record as record

# These modules import torch. They are loaded when a command uses them, not for its help.
_LOADED_ON_USE = {
    "EVEN": "curves",
    "evaluate": "curves",
    "sweep": "curves",
    "one_thread": "measured_errors",
    "channels": "unit_facts",
    "record": "unit_facts",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"gatewise.cli.output.{_LOADED_ON_USE[name]}")
    return getattr(module, name)
