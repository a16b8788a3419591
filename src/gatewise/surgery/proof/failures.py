"""The errors of a proof: the changed model is wrong, or the original cannot be run."""

from gatewise.errors import GatewiseError


class SwapFailed(GatewiseError, RuntimeError):  # noqa: N818  a public name without "Error"
    """A plan was carried out, and the changed model is not what the plan promises.

    The model is as it was before.
    """


class OriginalFailedError(Exception):
    """The original itself cannot be run in this way."""


def check_difference(
    operation: str, name: str, value: float, most: float, fix: str | None = None, note: str = ""
) -> None:
    """Raise an error if two models that must be equal are not.

    Args:
        operation: The function that changed the model.
        name: What was compared.
        value: The relative difference.
        most: The largest difference that rounding explains.
        fix: What the user can do.
        note: Further words about the difference.

    Raises:
        SwapFailed: The difference is larger, or not a number.
    """
    if not value <= most:
        raise SwapFailed(
            f"{operation}: the changed model computes something else ({name})",
            got=f"relative difference {value:.3g}{note}",
            allowed=f"at most {most:g}",
            fix=fix,
        )
