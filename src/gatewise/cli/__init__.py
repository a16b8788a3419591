"""The command line: arguments to calls, one file per command. Nothing imports it."""


def main() -> None:
    """Entry point of ``gatewise``."""
    import io
    import sys

    from gatewise.cli.app import app

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our symbols shows ? instead of failing
    app()
