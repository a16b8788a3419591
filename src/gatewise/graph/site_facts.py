"""What is told about one activation site."""

from dataclasses import asdict, dataclass
from typing import Any

KINDS = ("module", "functional", "reused", "hidden-in-norm")


@dataclass(frozen=True)
class Site:
    """One activation call of a model.

    ``path`` is the activation's module, or for a functional call the module in whose ``forward`` it
    stands; ``call`` counts the calls of that module. ``order`` says which activation call of the
    whole forward it is, ``functional`` which of those in its owner's call. Producers and consumers
    are module paths (``"input"`` and ``"output"`` are the model's own).
    """

    name: str  # unique: "layer1.0.relu", "layer1.0.relu@1", "block:relu#0"
    path: str
    call: int
    kind: str
    op: str
    role: str
    owner: str  # module whose forward makes the call
    # which activation call this is among those standing in the owner itself, in one of its calls
    place: int
    order: int
    dim: int | None  # of the channels, counted from the front; None where no layer tells
    channels: int | None
    shape: tuple[int, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    depth: float  # 0 for the first site, 1 for the last
    shared: bool  # several calls of the module around it go through this same place
    modes: tuple[str, ...]  # "eval", "train" or both

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)
