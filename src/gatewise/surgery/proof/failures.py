"""What a proof does when a model cannot be run."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from torch import nn

from gatewise.errors import GatewiseError
from gatewise.surgery.proof.running import Run
from gatewise.surgery.propagate import watching_sizes


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  a public name without "Error"
    """A plan was carried out, and the changed model is not what the plan promises.

    The model is as it was before.
    """


class OriginalFailedError(Exception):
    """The original itself cannot be run in this way."""


def of_original(action: Callable[[], Run]) -> Run:
    """Run the original.

    Raises:
        OriginalFailedError: it cannot be run in this way.
    """
    try:
        return action()
    except Exception as problem:  # the model's own code may raise anything
        raise OriginalFailedError(first_line(problem)) from problem


def of_changed(action: Callable[[], Run], *, trained: bool = False) -> Run:
    """Run the changed model.

    Raises:
        SwapFailed: it cannot be run; with ``trained``, not trained.
    """
    try:
        return action()
    except Exception as problem:
        cause = "the model's code may contain a fixed size"
        if trained:
            cause += ", or an operation in place on what a unit needs for its gradient"
        done = "trained" if trained else "run"
        raise SwapFailed(
            f"swap: the changed model cannot be {done} ({first_line(problem)})",
            fix=f"{cause}; leave out the sites before it with where=",
        ) from problem


@contextmanager
def checking_sizes(changed: nn.Module, sizes: Mapping[str, tuple[int, ...]]) -> Iterator[None]:
    """Within the context, the layers of ``changed`` must make outputs of these sizes.

    Raises:
        SwapFailed: one does not.
    """
    wrong: list[str] = []
    with watching_sizes(changed, sizes, wrong):
        yield
    if wrong:
        raise SwapFailed(
            "swap: a layer does not make what the plan expects", got="; ".join(wrong[:3])
        )


def first_line(problem: BaseException | None) -> str:
    """The first line of an error's message, or its type."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
