"""One run in one folder: begun, gone on with, or found finished.

Note [The folder of a run]

``config.json`` is written first, ``result.json`` last; between them ``metrics.jsonl`` grows by a
line an epoch, and two checkpoints take turns. ``weights.safetensors`` is written just before the
result, and then the checkpoints are deleted. Whatever moment a process dies at, the next one with
the same configuration goes on from the newest checkpoint and comes to the same bits. A folder of
another configuration is an error, and nothing in it is touched.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.data import DataSet
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.files import (
    Journal,
    digest,
    find_record,
    held,
    list_folder,
    make_folder,
    remove_temporaries,
    write_record,
    write_tensors,
)
from gatewise.train.config import RunConfig
from gatewise.train.loop import (
    Checkpoints,
    Diverged,
    Loop,
    Pace,
    ProcessGroup,
    Result,
    Saved,
    Start,
    StopSignal,
    TrainingSetup,
    Watcher,
    assemble,
    averaged,
    check_before_data,
    deterministic,
    differences,
    joined,
    load_data,
    named_state,
    own_randomness,
    read_result,
    tensors_digest,
    write_result,
)

CONFIG, METRICS, WEIGHTS, LOCK = "config.json", "metrics.jsonl", "weights.safetensors", "run.lock"


def train(
    config: RunConfig,
    out: str | Path,
    *,
    data: DataSet | None = None,
    data_folder: str | None = None,
    network: Callable[[], nn.Module] | None = None,
    pace: Pace | None = None,
    allow_inexact: bool = False,
    watchers: Sequence[Watcher] = (),
    stop: StopSignal | None = None,
) -> Result | None:
    """Train as ``config`` says, in the folder ``out``.

    None if stopped before the end, to be gone on with.

    A folder with an unfinished run of the same configuration is gone on with, to the bits it would
    have had without interruption; a finished one is left as it is, and its result returned. A
    checkpoint made with other versions, threads or processor is refused, unless ``allow_inexact``;
    then the result says so.

    Args: config: what to train; see :func:`run_config`. out: the folder of this run alone. data:
        the data set, if it is at hand; else it is loaded, from ``data_folder`` where it needs one.
        network: makes the network in place of the configuration, which then only names it: its
        digest tells runs apart. pace: how often to save and how many threads make batches; none of
        it changes a bit. allow_inexact: go on although last bits may differ from those of an
        uninterrupted run. watchers: what looks on. stop: asked to stop by Ctrl-C and by a
        termination signal; give one to ask for it in another way.
    """
    folder, stop, pace = Path(out), stop or StopSignal(), check_pace(pace or Pace())
    if data is None:
        check_run(config, folder)
    else:
        check_folder(folder, config)
    result = find_result(folder, config)
    if result is not None:
        return result
    with ExitStack() as stack:
        group = stack.enter_context(joined())
        for context in (own_randomness(), deterministic(), stop.listening()):
            stack.enter_context(context)
        own = None if network is None else network()
        setup = assemble(
            config, data=data or load_data(config, data_folder), group=group, network=own
        )
        stack.enter_context(_claimed(folder, group))  # from here on something is written
        return find_result(folder, config) or _run(
            folder, setup, group, stop, pace, allow_inexact, watchers
        )


def check_run(config: RunConfig, out: str | Path) -> None:
    """Refuse what can be known to be impossible; nothing is written, and no data are read."""
    check_folder(Path(out), config)
    check_before_data(config)


def _run(
    folder: Path,
    setup: TrainingSetup,
    group: ProcessGroup,
    stop: StopSignal,
    pace: Pace,
    inexact: bool,
    watchers: Sequence[Watcher],
) -> Result | None:
    if group.leads:
        write_record(
            folder / CONFIG, {"config_sha256": setup.config.digest, "config": setup.config.plain}
        )
    else:
        watchers = ()
    checkpoints, journal = Checkpoints(folder), Journal(folder / METRICS)
    loop = Loop(
        setup,
        checkpoints=checkpoints,
        journal=journal,
        pace=pace,
        group=group,
        stop=stop,
        watchers=watchers,
    )
    saved = checkpoints.load()
    if saved is not None:
        changes = check_saved(saved, setup, inexact)
        loop.resume(saved)
        loop.progress.inexact += changes
    elif group.leads:
        journal.cut(0)
    loop.progress.starts += 1
    for watcher in watchers:
        watcher.start(_start(loop))
    reason = None
    try:
        over = loop.run()
    except Diverged as problem:
        over, reason = True, str(problem)
    result = _finish(folder, loop, reason) if over and group.leads else None
    group.totals([0.0])  # the others wait for the result
    if over and not group.leads:
        result = read_result(folder)
    for watcher in watchers:
        watcher.end(result)
    return result


def _finish(folder: Path, loop: Loop, reason: str | None) -> Result:
    """Write weights and result, and delete the checkpoints."""
    with averaged(loop.model, loop.average):
        write_tensors(folder / WEIGHTS, loop.model.state_dict())
    tensors, _ = named_state(loop.model, loop.optimiser, loop.average)
    records, setup = loop.journal.read(), loop.setup
    scored = [record for record in records if "test_loss" in record]
    result = Result(
        status="finished" if reason is None else "diverged",
        reason=reason,
        steps=loop.progress.step,
        epochs=loop.progress.epoch,
        metrics=records[-1] if records else None,
        best=min(scored, key=lambda record: record["test_loss"], default=None),
        weights_sha256=digest(folder / WEIGHTS),
        state_sha256=tensors_digest(tensors),
        metrics_sha256=digest(folder / METRICS) if records else digest(b""),
        config_sha256=setup.identity["config"],
        data_sha256=setup.identity["data"],
        config=setup.config.plain,
        environment=setup.environment,
        seconds=round(loop.progress.seconds, 3),
        starts=loop.progress.starts,
        inexact=loop.progress.inexact,
    )
    write_result(folder, result)
    loop.checkpoints.remove()
    return result


@contextmanager
def _claimed(folder: Path, group: ProcessGroup) -> Iterator[None]:
    """The folder, made and held against other runs by the process that leads.

    All others wait for it.
    """
    with ExitStack() as stack:
        if group.leads:
            make_folder(folder)
            stack.enter_context(held(folder / LOCK))
            remove_temporaries(folder)
        group.totals([0.0])
        yield


def find_result(folder: Path, config: RunConfig) -> Result | None:
    """The result of a run of this configuration that is over already; None if it is not."""
    result = read_result(folder)
    if result is None:
        return None
    if result.config_sha256 != config.digest:
        raise _other(folder)
    Checkpoints(
        folder
    ).remove()  # left, if the process died between writing the result and deleting them
    remove_temporaries(folder)
    return result


def check_folder(folder: Path, config: RunConfig) -> None:
    """Refuse a folder that belongs to another run, or to something else."""
    found = set(list_folder(folder))
    if CONFIG in found and read_config(folder)["config_sha256"] != config.digest:
        raise _other(folder)
    if CONFIG not in found and found - {LOCK}:
        raise ArgumentError(
            f"out: {folder} holds other files",
            got=", ".join(sorted(found)[:3]),
            fix="name a new or empty folder",
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``config.json``: ``config_sha256`` and ``config``."""
    content = find_record(folder / CONFIG)
    if content is None:
        raise ArgumentError("there is no run in this folder", got=str(folder))
    if not {"config", "config_sha256"} <= content.keys():
        raise DamagedFileError(
            f"{folder / CONFIG} is not a configuration of this version", fix="choose another folder"
        )
    return content


def check_saved(saved: Saved, setup: TrainingSetup, allow_inexact: bool) -> list[str]:
    """What has changed since the checkpoint, if that is allowed; or an error that says so."""
    if saved.identity != setup.identity:
        raise ArgumentError(
            "the data are not those the run was begun with",
            got=f"sha256 {setup.identity['data']}",
            allowed=f"sha256 {saved.identity.get('data')}",
            fix="bring back the data, or choose another folder",
        )
    changes = differences(saved.environment, setup.environment)
    if changes and not allow_inexact:
        raise ArgumentError(
            "the run was begun under other conditions, and would not end in the same bits",
            got="; ".join(changes),
            fix="bring them back, or allow it with --allow-inexact (allow_inexact=True)",
        )
    return changes


def check_pace(pace: Pace) -> Pace:
    """``pace`` if its numbers are possible."""
    for name, least in (("workers", 0), ("checkpoint_seconds", 0.0), ("checkpoint_epochs", 0)):
        value = getattr(pace, name)
        kinds = (int,) if isinstance(least, int) else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= 1e9:
            raise ArgumentError(
                f"{name} is not allowed", got=value, allowed=f"a number from {least}"
            )
    if pace.workers > 64:
        raise ArgumentError("workers is not allowed", got=pace.workers, allowed="at most 64")
    return pace


def _start(loop: Loop) -> Start:
    batches, progress = loop.setup.batches, loop.progress
    return Start(
        config=loop.config,
        model=loop.model,
        step=progress.step,
        epoch=progress.epoch,
        epochs=loop.recipe.total_epochs,
        steps_per_epoch=batches.count,
        examples=len(batches.split),
    )


def _other(folder: Path) -> ArgumentError:
    return ArgumentError(
        f"out: {folder} belongs to a run of another configuration, and was not touched",
        fix="choose another folder, or delete that one",
    )
