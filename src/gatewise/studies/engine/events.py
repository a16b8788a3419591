"""What happens to cells while they are carried out, and what is done about those that are lost."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from gatewise.errors import FileError
from gatewise.studies.engine.run_cell import Outcome, Task, fail


@dataclass(frozen=True)
class Event:
    """What happened to a cell.

    ``started``, ``finished``, ``diverged``, ``failed``, ``stopped`` or ``lost``.
    """

    kind: str
    key: str
    worker: str
    reason: str | None = None


Tell = Callable[[Event], None]


class Retries:
    """Decides whether a cell that was lost is tried again.

    One that takes every worker with it is a result, failed.
    """

    def __init__(self, tries: int, tell: Tell) -> None:
        self.tries, self.tell = tries, tell
        self.lost: Counter[str] = Counter()

    def again(self, task: Task, outcome: Outcome) -> bool:
        """Whether to try again; if not, its failure is recorded.

        A disc that fails for all cells is an error.
        """
        self.lost[task.key] += 1
        if self.lost[task.key] < self.tries:
            return True
        if outcome.disc:
            raise FileError(
                "the study cannot go on", got=outcome.reason, fix="mend that, and start it again"
            )
        found = fail(task, f"{outcome.reason} (tried {self.tries} times)")
        self.tell(Event(found.status, task.key, "driver", found.reason))
        return False
