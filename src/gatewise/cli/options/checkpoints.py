"""The checkpoints of ``gatewise diagnose``.

Files by name, or all that a run has kept in its folder.
"""

from pathlib import Path

from gatewise.errors import ArgumentError, FileError


def find_checkpoints(given: list[Path]) -> list[Path]:
    """The files, in the order given.

    Of a run's folder those of its epochs, and the weights at its end.
    """
    return [path for each in given for path in (_of_run(each) if each.is_dir() else [_file(each)])]


def _of_run(folder: Path) -> list[Path]:
    from gatewise.train import kept_weights

    found = kept_weights(folder)
    if not found:
        fix = "gatewise train --keep-weights 1 keeps those of every epoch; or name files"
        raise ArgumentError(
            "--checkpoints: the folder holds no weights of epochs", got=str(folder), fix=fix
        )
    return found


def _file(path: Path) -> Path:
    if not path.is_file():
        raise FileError(
            "--checkpoints: there is no such file",
            got=str(path),
            allowed="a safetensors file, or a run",
        )
    return path
