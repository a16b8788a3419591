"""One recorded call of an activation, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Position = tuple[int, int, int, int]

# Why a call cannot be rewritten: a closed list.
REFUSALS: Mapping[str, str] = {
    "free_function": "the call is made by a function that is no method of a module of this model",
    "no_source": "Python has no source text for the method",
    "no_positions": "this Python does not record the column of a call (Python 3.11 or later does, "
    "unless debug ranges are switched off)",
    "source_changed": "the source text has changed since it was imported",
    "not_recognised": "the source at this position is not a plain call of the activation",
    "decorated": "the method has a decorator that cannot be taken apart",
    "own_name": "the method assigns another value to the name of its module",
    "aliased": "the call writes into a tensor that is read under another name afterwards",
    "kept": "the call writes into a tensor that an attribute, a list or a hook keeps after the run",
    "chosen": "the function that is called is chosen by an argument or a value, so that it may be "
    "another one for other inputs",
    "container": "the module is called by a container, which loops over its children: replace "
    "the module itself",
    "graph": "the method is made from a traced graph, in which only activations can change",
    "rewritten": "the call already is a call of a unit from an earlier rewrite",
    "name_taken": "the owner already has an attribute of the name under which units are stored",
}


@dataclass(frozen=True)
class CallSite:
    """One call of an activation in one run: who makes it, where in the source, and what it calls.

    Attributes:
        owner: Path of the module whose method makes the call.
        call: Which call of the owner it was, from 0.
        method: Name of the method that makes the call.
        defined_in: The class that defines the method, as ``package.module:Class``.
        code: Qualified name of the code that makes the call, which may be a nested function.
        file: The source file.
        digest: SHA-256 of the source file.
        position: Line, last line, column and last column in the file. Columns count bytes, as
            Python does.
        op: The activation.
        form: Where the input is written: ``"argument"``, ``"keyword NAME"`` or ``"self"``.
        arguments: The other arguments, by name.
        inplace: Whether the call writes into its input.
        module: Path of the activation module, if a module is called.
        reused: Whether that module is called more than once.
        attribute: Name of the owner's attribute that is called, if it is one.
        iteration: Number of the iteration of a loop, each of which gets a unit. ``None`` if the
            call has a single unit.
        iterations: Number of iterations of the loop.
        shared: Whether the unit serves several calls. The owner or a helper method may run more
            than once, or the loop may skip the call, so that counting would mix up iterations.
        aliased: Whether the overwritten input is read again under another name. A unit that returns
            a new tensor would change the program.
        refused: A key of ``REFUSALS`` if the call cannot be rewritten.
        through: For a layer that is bound from another method, where that method calls this one.
    """

    owner: str
    call: int
    method: str
    defined_in: str
    code: str
    file: str
    digest: str
    position: Position
    op: str
    form: str
    arguments: tuple[tuple[str, Any], ...] = ()
    inplace: bool = False
    module: str | None = None
    reused: bool = False
    attribute: str | None = None
    iteration: int | None = None
    iterations: int | None = None
    shared: bool = False
    aliased: bool = False
    refused: str | None = None
    through: Position | None = None

    @property
    def place(self) -> tuple[str, str, str, Position]:
        """The key that all executions of one piece of source share, per owner."""
        return self.owner, self.defined_in, self.method, self.position

    @property
    def slot(self) -> tuple[tuple[str, str, str, Position], int | None]:
        """The key that all calls with the same unit share."""
        return self.place, self.iteration

    @property
    def reason(self) -> str | None:
        """Why the call cannot be rewritten, with file and line."""
        return self.refused and f"{REFUSALS[self.refused]} ({self.file}:{self.position[0]})"
