"""One test for many values: a loop in place of an id for each."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any


def for_each(names: str | Sequence[str], values: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Call a test with every value, as one test. An error names the values.

    Args:
        names: of one argument, or of several that each value is unpacked to.
        values: of the arguments.
    """
    keys = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    cases = [dict(zip(keys, [v] if len(keys) == 1 else v, strict=True)) for v in values]

    def decorate(test: Callable) -> Callable:
        @wraps(test)
        def run(**fixtures: Any) -> None:
            for case in cases:
                try:
                    test(**fixtures, **case)
                except Exception as problem:
                    problem.add_note(f"with {case}")
                    raise

        signature = inspect.signature(test)
        rest = [p for name, p in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=rest)  # pyright: ignore
        return run

    return decorate
