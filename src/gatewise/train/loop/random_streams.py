"""Randomness as a function of what it is for.

(seed, stream, place), never of what was drawn before.

Note [No position to restore]

Every draw of a run has a name: the initial weights of one module, the order of one epoch, the
dropout of one step. Its numbers come from a generator seeded by the sha256 of the run's seed and
that name. So a resumed run needs no state of a generator, two units are compared on the same
batches and from the same weights, and no draw moves another.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

Name = str | int
LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # others know best how they start


def stream_seed(seed: int, *names: Name) -> int:
    """A 64-bit seed for the stream of these names.

    ``("order", 1)`` and ``("order", "1")`` are different streams.
    """
    return int.from_bytes(sha256(repr((int(seed), *names)).encode()).digest()[:8], "little")


def generator(seed: int, *names: Name) -> torch.Generator:
    """A generator at the beginning of the stream of these names."""
    return torch.Generator().manual_seed(stream_seed(seed, *names))


def shuffled(count: int, seed: int, *names: Name) -> Tensor:
    """The numbers ``0 .. count - 1`` in the random order of that stream, ``(count,)``."""
    return torch.randperm(count, generator=generator(seed, *names))


def seed_step(seed: int, step: int, rank: int = 0) -> None:
    """Put torch's own generator, which dropout draws from, at the beginning of the stream of one step."""
    torch.default_generator.manual_seed(stream_seed(seed, "step", step, rank))


@contextmanager
def own_randomness() -> Iterator[None]:
    """Leave torch's own generator as it was found."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def initialised(build: Callable[[], nn.Module], seed: int, start: str = "torch") -> nn.Module:
    """What ``build`` builds, with weights that are a function of ``seed`` alone.

    See :func:`initialise`.
    """
    with own_randomness():
        torch.default_generator.manual_seed(
            stream_seed(seed, "build")
        )  # for weights that no module can draw again
        return initialise(build(), seed, start)


def initialise(model: nn.Module, seed: int, start: str = "torch") -> nn.Module:
    """Draw the weights of every module anew, each from the stream of its own path.

    Returns the model.

    Modules at equal paths with weights of equal shapes start equal, whatever unit stands between
    them. Inner modules come first, so that one which sets its parts in its own way has the last
    word. A module whose weight is computed from another tensor keeps the one it was built with.
    ``start="he"`` draws the weights of linear and convolution layers from a normal distribution of
    variance 2 over their inputs, and sets biases to 0: through rectifiers a signal keeps its size,
    where torch's own start lets it fade with depth.
    """
    with own_randomness():
        for path, module in reversed(list(model.named_modules())):
            reset = getattr(module, "reset_parameters", None)
            if callable(reset) and not is_parametrized(module):
                torch.default_generator.manual_seed(stream_seed(seed, "init", path))
                _start_as_he(module) if start == "he" and type(module) in LAYERS else reset()
    return model


def _start_as_he(layer: nn.Module) -> None:
    """He et al., 2015: what a rectifier passes on has the size of what it was given."""
    nn.init.kaiming_normal_(layer.get_parameter("weight"), nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.get_parameter("bias"))
