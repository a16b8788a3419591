"""Initial weights and the generators of a run; see Note [No position to restore]."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.utils.parametrize import is_parametrized

from gatewise.data import stream_seed

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)  # with He's start; others keep their own


def seed_step(
    seed: int,
    step: int,
    rank: int = 0,
    part: int = 0,
    device: torch.device | None = None,
) -> None:
    """Set torch's generator, which dropout uses, to the beginning of the stream of one step.

    Args:
        seed: of the run.
        step: its number.
        rank: of the process.
        part: which batch of the step, if gradients of several are added up.
        device: whose generator is set too, if it is an accelerator.
    """
    names = ("step", step, rank) if not part else ("step", step, rank, part)
    value = stream_seed(seed, *names)
    torch.default_generator.manual_seed(value)
    if device is not None and device.type != "cpu":
        _seed_accelerators(value)


def seed_all(seed: int) -> None:
    """Seed Python's, NumPy's and torch's global generators with a 64-bit number."""
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    _seed_accelerators(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed([seed & 0xFFFFFFFF, seed >> 32])


def _seed_accelerators(seed: int) -> None:
    """Seed the generators of accelerators that are in use.

    ``torch.manual_seed`` does it too, but where CUDA was never used it keeps a stack trace for each
    call, which takes milliseconds.
    """
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)


@contextmanager
def own_randomness() -> Iterator[None]:
    """Restore the state of torch's generator after the block."""
    state = torch.default_generator.get_state()
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


@contextmanager
def all_randomness() -> Iterator[None]:
    """Restore Python's, NumPy's and torch's global generators after the block."""
    python = random.getstate()
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy else None
    try:
        with own_randomness():
            yield
    finally:
        random.setstate(python)
        if numpy:
            numpy.random.set_state(state)


def initialised(build: Callable[[], nn.Module], seed: int, start: str = "torch") -> nn.Module:
    """Return what ``build`` builds, with weights that depend on ``seed`` alone.

    Args:
        build: makes the network.
        seed: of the weights.
        start: see :func:`initialise`.
    """
    with own_randomness():
        # For weights that no module can draw again.
        torch.default_generator.manual_seed(stream_seed(seed, "build"))
        return initialise(build(), seed, start)


def initialise(model: nn.Module, seed: int, start: str = "torch") -> nn.Module:
    """Draw the weights of every module anew, each from the stream of its own path.

    Modules at equal paths with weights of equal shapes start equal, whatever unit stands between
    them. Inner modules are drawn first, so that a module that initialises its parts itself does it
    last. A module whose weight is computed from another tensor keeps the one it was built with.

    Args:
        model: changed in place.
        seed: of the weights.
        start: ``"torch"``, or ``"he"`` to draw the weights of linear and convolution layers from a
            normal distribution of variance 2 over their inputs, with biases 0. Through rectifiers a
            signal then keeps its size; with torch's own start it fades with depth.

    Returns:
        The model.
    """
    with own_randomness():
        for path, module in reversed(list(model.named_modules())):
            reset = getattr(module, "reset_parameters", None)
            if callable(reset) and not is_parametrized(module):
                torch.default_generator.manual_seed(stream_seed(seed, "init", path))
                _start_as_he(module) if start == "he" and type(module) in LAYERS else reset()
    return model


def _start_as_he(layer: nn.Module) -> None:
    """Initialise as He et al., 2015: a rectifier then keeps the size of a signal."""
    nn.init.kaiming_normal_(layer.get_parameter("weight"), nonlinearity="relu")
    if layer.bias is not None:
        nn.init.zeros_(layer.get_parameter("bias"))
