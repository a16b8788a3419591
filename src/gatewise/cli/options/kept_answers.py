"""The finished checks of an interrupted ``gatewise diagnose``."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.errors import FileError

if TYPE_CHECKING:
    from gatewise.analysis import Answer

NAME = "unfinished.json"


class KeptAnswers:
    """Answers of one command in a file of its output folder, until the command is finished.

    Answers of another command, of other files or of another version are not used.

    Args:
        folder: The output folder.
        settings: What the command line says.
        files: Names of files that the answers depend on. Those that do not exist are ignored.
    """

    def __init__(self, folder: Path, settings: Any, files: Iterable[str | Path]) -> None:
        from importlib import metadata  # here: importing it takes as long as printing a help

        from gatewise.files import digest

        self.path = folder / NAME
        marks = [_mark(Path(name)) for name in files]
        versions = [metadata.version(name) for name in ("gatewise", "torch")]
        text = json.dumps([settings, marks, versions], default=str)
        self.key = digest(text.encode())
        self.answers: list[dict[str, Any]] = []

    def read(self) -> "list[Answer]":
        """Return the answers that an interrupted run of the same command has kept."""
        from gatewise.analysis import Answer
        from gatewise.files import find_json

        try:
            record = find_json(self.path)
        except FileError:  # cut short or changed: everything is asked again
            record = None
        if record is not None and record.get("key") == self.key:
            self.answers = list(record["answers"])
        return [Answer.from_dict(values) for values in self.answers]

    def add(self, answer: "Answer") -> None:
        """Keep one more answer. Failures are asked again."""
        from gatewise.files import make_folder, write_json

        if answer.state == "failed":
            return
        self.answers.append(answer.to_dict())
        make_folder(self.path.parent)
        write_json(self.path, {"key": self.key, "answers": self.answers})

    def remove(self) -> None:
        """Forget the answers of a finished command."""
        from gatewise.files import remove_file

        if self.path.exists():
            remove_file(self.path)


def _mark(path: Path) -> list[Any]:
    """Return what tells whether a file or a folder of files is still the same."""
    try:
        if path.is_dir():
            files = sorted(item for item in path.rglob("*") if item.is_file())
        else:
            files = [path] if path.is_file() else []
        facts = [(str(file), file.stat()) for file in files]
    except OSError:
        return [str(path)]
    return [[name, fact.st_size, fact.st_mtime_ns] for name, fact in facts]
