"""One recorded call of an activation, as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

Position = tuple[int, int, int, int]

# Why a call cannot be rewritten: a closed list.
REFUSALS: Mapping[str, str] = {
    "free_function": "the call is made by a function that is no method of a module of this model",
    "no_source": "python has no source text for the method",
    "no_positions": "this python does not record where in a line a call stands (it needs 3.11, and debug ranges)",
    "source_changed": "the source text is not what was imported",
    "not_recognised": "what stands at this place is not a plain call of the activation with its input",
    "decorated": "the method is wrapped by a decorator that cannot be taken apart",
    "own_name": "the method does not keep its own module under one name",
    "aliased": "the call writes into a tensor that is read under another name afterwards",
    "container": "the module is called by a container, which goes through its children: replace the module itself",
    "rewritten": "the call is already one of a unit that a rewrite has put in",
    "name_taken": "the owner already has an attribute of the name under which units are kept",
}


@dataclass(frozen=True)
class CallSite:
    """One call of an activation in one run.

    Who made it, where it stands in the source, and what it was.

    ``owner`` is the module whose method makes the call, ``call`` the number of the owner's run.
    ``position`` is line, last line, column and last column in ``file`` (columns in bytes, as python
    counts). A call of an activation *module* has its name in ``module``, with ``reused`` if it is
    called more than once. ``attribute`` is the name on the owner that was called, where it was one.

    ``iteration`` counts the executions of a call in a loop, of ``iterations`` in all: each has a
    unit of its own.
    None: the place has one unit. ``shared`` says that this unit (or this iteration's) serves
    several calls: the owner runs more than once, a helper method does, or the loop may pass over
    the call, so that counting would mix them up. ``aliased``: the call writes into its input, which
    is read again under another name, so a unit that returns a new tensor would make another
    program, however it is put in. ``refused`` is a key of ``REFUSALS``, or None.
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
    form: str  # "argument", "keyword NAME", or "self": where the input stands in the call
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
    through: Position | None = (
        None  # of a layer bound from another method: where that one calls this one's method
    )

    @property
    def place(self) -> tuple[str, str, str, Position]:
        """What calls of one piece of source have in common, per owner."""
        return self.owner, self.defined_in, self.method, self.position

    @property
    def slot(self) -> tuple[tuple[str, str, str, Position], int | None]:
        """What calls that are served by one unit have in common."""
        return self.place, self.iteration

    @property
    def reason(self) -> str | None:
        """Why the call cannot be rewritten, and where it stands."""
        return self.refused and f"{REFUSALS[self.refused]} ({self.file}:{self.position[0]})"

    def to_dict(self) -> dict[str, Any]:
        """The site as JSON can hold it."""
        data = asdict(self)
        return data | {
            "position": list(self.position),
            "arguments": [list(pair) for pair in self.arguments],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "CallSite":
        """The site that :meth:`to_dict` wrote."""
        position, arguments = (
            tuple(data["position"]),
            tuple((name, value) for name, value in data["arguments"]),
        )
        through = tuple(data["through"]) if data.get("through") else None
        return cls(**{**data, "position": position, "arguments": arguments, "through": through})
