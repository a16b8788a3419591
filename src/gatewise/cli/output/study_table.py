"""The result of a study on the terminal: differences from the baseline, certainty and cost."""

from typing import TYPE_CHECKING

from gatewise.cli.output.terminal import print_rich, table

MOST_TABLES = 12
MOST_ROWS = 60

if TYPE_CHECKING:
    from gatewise.studies import Status, StudyResult


MOST_LINES = 20  # of one kind in a status


def print_study(result: "StudyResult") -> None:
    """Print the answer, one table for each network, and what stands below the tables."""
    from gatewise.studies import COLUMNS, NOTHING, lines_below, plain_text, rows_of, title_of

    whole = COLUMNS[1:5] + COLUMNS[6:]
    print(result.content.get("title") or result.content["name"])
    print()
    for line in (*result.answer, *result.further):
        print(plain_text(line))
    for block in result.blocks[:MOST_TABLES]:
        print(f"\n{title_of(result, block)}")
        rows = rows_of(result, block)
        if not rows:
            print(NOTHING.format(result.baseline))
            continue
        block_table = table(*COLUMNS, right=whole, whole=whole)
        for row in rows[:MOST_ROWS]:
            block_table.add_row(*row)
        print_rich(block_table)
        if len(rows) > MOST_ROWS:
            print(f"and {len(rows) - MOST_ROWS:,} more units: see the page or --json")
    if len(result.blocks) > MOST_TABLES:
        print(f"\nand {len(result.blocks) - MOST_TABLES:,} more tables: see the page or --json")
    print("\n".join(lines_below(result)))


def print_status(status: "Status") -> None:
    """Print how far a study is."""
    from gatewise.studies import cell_name
    from gatewise.train import clock

    done = status.finished + status.diverged
    print(f"{status.title or status.name}: {done} of {status.total} {status.stage} done")
    failed = status.failed_count
    print(f"running {len(status.running)}  failed {failed}  waiting {status.waiting}")
    _print_some("running", [cell_name(cell) for cell in status.running], len(status.running))
    reasons = [f"{cell_name(cell)}: {cell['reason']}" for cell in status.failed]
    _print_some("failed", reasons, failed)
    faults = [f"{record['key']}: {record['reason']}" for record in status.damaged]
    _print_some("damaged, will run again", faults, status.damaged_count)
    if len(status.drivers) > 1:
        print(f"{len(status.drivers)} processes are working on this study")
    if status.driver is not None:
        if status.seconds_left is not None:
            print(f"{clock(status.seconds_left)} left")
    elif status.waiting:
        print("no process is working on this study: rerun the same command to resume")
    else:
        print("no process is working on this study")


def _print_some(what: str, lines: list[str], count: int) -> None:
    """Print the first lines, and how many more there are."""
    for line in lines[:MOST_LINES]:
        print(f"{what}: {line}")
    if count > MOST_LINES:
        print(f"{what}: {count - MOST_LINES} more; --json names them")
