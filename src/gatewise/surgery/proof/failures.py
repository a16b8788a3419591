"""The errors of a proof: the changed model is wrong, or the original cannot be run."""

from gatewise.errors import GatewiseError


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  a public name without "Error"
    """A plan was carried out, and the changed model is not what the plan promises.

    The model is as it was before.
    """


class OriginalFailedError(Exception):
    """The original itself cannot be run in this way."""


def first_line(problem: BaseException | None) -> str:
    """The first line of an error's message, or its type."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]
