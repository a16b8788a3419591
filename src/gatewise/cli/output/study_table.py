"""A study in the terminal.

What differs from the baseline, by how much, how sure, and at what cost.
"""

from typing import TYPE_CHECKING

from gatewise.cli.output.terminal import print_rich, table

if TYPE_CHECKING:
    from gatewise.studies import Status, StudyResult


def print_study(result: "StudyResult") -> None:
    """One table for each backbone, then ranks, seeds needed, and what did not finish."""
    from gatewise.studies import COLUMNS, lines_below, rows_of, title_of

    whole = COLUMNS[1:5] + COLUMNS[6:]
    print(result.content["title"] or result.content["name"])
    for block in result.blocks:
        print(f"\n{title_of(result, block)}")
        rows, made = rows_of(result, block), table(*COLUMNS, right=whole, whole=whole)
        for row in rows:
            made.add_row(*row)
        print_rich(made) if rows else print(
            f"the baseline {result.baseline} has no finished cell here"
        )
    print("\n".join(lines_below(result)))


def print_status(status: "Status") -> None:
    """A few lines."""
    from gatewise.studies import cell_name
    from gatewise.train import clock

    done = status.finished + status.diverged
    print(f"{status.title or status.name}: {done} of {status.total} {status.stage} done")
    print(f"running {len(status.running)}  failed {len(status.failed)}  waiting {status.waiting}")
    for cell in status.running:
        print(f"running: {cell_name(cell)}")
    for cell in status.failed:
        print(f"failed: {cell_name(cell)}: {cell['reason']}")
    if status.driver is None:
        print(
            "nobody is at work"
            + (": give the same command again to go on" if status.waiting else "")
        )
    elif status.seconds_left is not None:
        print(f"{clock(status.seconds_left)} left")
