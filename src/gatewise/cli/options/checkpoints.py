"""The checkpoints of ``gatewise diagnose``: files, or all that a training run has kept."""

from pathlib import Path

from gatewise.errors import ArgumentError, FileError


def find_checkpoints(paths: list[Path]) -> list[Path]:
    """Return the weight files that ``--checkpoints`` names, in order.

    Args:
        paths: Safetensors files, or folders of runs. A run stands for the weights of its epochs and
            the weights at its end.
    """
    from gatewise.train import kept_weights

    checkpoints: list[Path] = []
    for path in paths:
        if path.is_dir():
            weights = kept_weights(path)
            if not weights:
                raise ArgumentError(
                    "--checkpoints: the folder holds no weights of epochs",
                    got=str(path),
                    fix="train with --keep-weights 1 to keep those of every epoch, or name files",
                )
            checkpoints += weights
        elif path.is_file():
            checkpoints.append(path)
        else:
            raise FileError(
                "--checkpoints: there is no such file",
                got=str(path),
                allowed="a safetensors file, or the folder of a run",
            )
    return checkpoints
