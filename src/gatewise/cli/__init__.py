"""The command line: arguments to calls, one file per command. Nothing imports it."""


def main() -> None:
    """Entry point of ``gatewise``."""
    import sys

    _prepare_streams()
    from gatewise.cli.application import app

    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disc can still be reported
    except OSError as error:
        _end_unwritten(error)


def _prepare_streams() -> None:
    """Let output end as it does for any command.

    Quietly where the reader stops or where there is nowhere to write.
    """
    import io
    import os
    import signal
    import sys

    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123 - for as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal without our symbols shows ? instead of failing


def _end_unwritten(error: OSError) -> None:
    """One line and exit 2: what was asked for could not be printed."""
    import contextlib
    import os
    import sys

    with contextlib.suppress(OSError):
        print(f"error: cannot write the output: {error.strerror or error}", file=sys.stderr)
    os._exit(2)  # an ordinary exit would flush the same output again, and fail again
