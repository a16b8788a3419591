"""One run in one folder: started, resumed, or already finished.

Note [The folder of a run]

``config.json`` is written first, ``result.json`` last. Between them ``metrics.jsonl`` grows by a
line per epoch, and ``checkpoint.safetensors`` is replaced now and then. ``weights.safetensors`` is
written just before the result, and then the checkpoint is deleted. Whenever a process dies, the
next one with the same configuration resumes from the checkpoint and ends in the same bits. A folder
of another configuration is an error, and nothing in it is changed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.data import DataSet
from gatewise.devices import device_randomness, find_device
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.files import (
    Journal,
    digest,
    find_json,
    held,
    list_folder,
    make_folder,
    remove_temporaries,
    write_json,
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
    all_randomness,
    assemble,
    check_before_data,
    deterministic,
    differences,
    joined,
    load_data,
    own_randomness,
    pack_bits,
    read_result,
    tensors_digest,
    write_result,
)

CONFIG = "config.json"
METRICS = "metrics.jsonl"
WEIGHTS = "weights.safetensors"
LOCK = "run.lock"


def train(
    config: RunConfig,
    out: str | Path,
    *,
    data: DataSet | None = None,
    data_folder: str | None = None,
    network: Callable[[], nn.Module] | None = None,
    setup: Callable[[torch.device], TrainingSetup] | None = None,
    device: str | torch.device | None = None,
    pace: Pace | None = None,
    allow_inexact: bool = False,
    watchers: Sequence[Watcher] = (),
    stop: StopSignal | None = None,
) -> Result | None:
    """Train as ``config`` says, in the folder ``out``, or resume there.

    An unfinished run of the same configuration is resumed and ends in the bits it would have had
    without interruption. A finished run is not changed, and its result is returned.

    Args:
        config: what to train; see :func:`run_config`.
        out: the folder of this run alone.
        data: the data set, if it is already loaded.
        data_folder: where the data set is loaded from, if it needs a folder.
        network: makes the network in place of the configuration, which then only names it: its
            digest identifies the run.
        setup: makes the network, its batches and its objective in place of configuration and data,
            on the device that it is called with.
        device: where to train: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"mps"`` or ``"auto"``. None
            is what GATEWISE_DEVICE says, or the processor. A run is resumed on the device it was
            started on.
        pace: how often to save, and how many threads prepare batches. It does not change the
            result.
        allow_inexact: whether to resume a checkpoint of other versions, threads or processor. The
            last bits may then differ, and the result says so. Otherwise it is an error.
        watchers: callbacks.
        stop: set by Ctrl-C and by a termination signal; pass one to stop the run in another way.

    Returns:
        The result; None if stopped before the end.
    """
    folder = Path(out)
    stop = stop or StopSignal()
    pace = pace or Pace()
    place = find_device(device)
    if data is None and setup is None:
        check_run(config, folder)
    else:
        check_folder(folder, config)
    result = find_result(folder, config)
    if result is not None:
        return result
    with ExitStack() as stack:
        group = stack.enter_context(joined())
        stack.enter_context(own_randomness() if setup is None else all_randomness())
        stack.enter_context(device_randomness(place))
        stack.enter_context(deterministic(strict=setup is None and place.type == "cpu"))
        stack.enter_context(stop.listening())
        if setup is None:
            model = None if network is None else network()
            data = data or load_data(config, data_folder)
            work = assemble(config, data=data, group=group, network=model, device=place)
        else:
            _refuse_several(group)
            work = setup(place)
        stack.enter_context(_claimed(folder, group))  # from here on something is written
        # Another process may have finished the run while this one waited for the folder.
        result = find_result(folder, config)
        if result is None:
            result = _run(folder, work, group, stop, pace, allow_inexact, watchers)
        return result


def _refuse_several(group: ProcessGroup) -> None:
    """Raise if several processes would train with code of the user."""
    if group.processes > 1:
        raise ArgumentError(
            "train: code of the user runs in one process", got=f"{group.processes} processes"
        )


def check_run(config: RunConfig, out: str | Path) -> None:
    """Check a run without writing anything or reading data.

    Raises:
        ArgumentError: if it cannot work in this folder.
    """
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
    """Train to the end and write the result; None if stopped."""
    if group.leads:
        write_json(
            folder / CONFIG, {"config_sha256": setup.config.digest, "config": setup.config.plain}
        )
    else:
        watchers = ()
    checkpoints = Checkpoints(folder)
    journal = Journal(folder / METRICS)
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
        over = True
        reason = str(problem)
    result = _finish(folder, loop, reason) if over and group.leads else None
    group.totals([0.0])  # the others wait for the result
    if over and not group.leads:
        result = read_result(folder)
    for watcher in watchers:
        watcher.end(result)
    return result


def _finish(folder: Path, loop: Loop, reason: str | None) -> Result:
    """Write weights and result, and delete the checkpoint."""
    tensors, _ = loop.state()
    records = loop.journal.read()
    metrics = records[-1] if records else None
    if reason is None and loop.progress.best_epoch:
        loop.take_best()
        metrics = next(r for r in records if r["epoch"] == loop.progress.best_epoch)
    write_tensors(folder / WEIGHTS, loop.evaluated.state_dict())
    setup = loop.setup
    scored = [record for record in records if record.get("test_loss") is not None]
    # Only of the weights that the metrics are about.
    known = reason is None and any(name.startswith("test_") for name in metrics or {})
    right = loop.test_right() if known else None
    result = Result(
        status="finished" if reason is None else "diverged",
        reason=reason,
        steps=loop.progress.step,
        epochs=loop.progress.epoch,
        metrics=metrics,
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
        correct=None if right is None else pack_bits(right),
        examples=None if right is None else len(right),
    )
    write_result(folder, result)
    loop.checkpoints.remove()
    return result


@contextmanager
def _claimed(folder: Path, group: ProcessGroup) -> Iterator[None]:
    """Create the folder and hold it for the block; the other processes wait for the leading one."""
    with ExitStack() as stack:
        if group.leads:
            make_folder(folder)
            stack.enter_context(held(folder / LOCK))
            remove_temporaries(folder)
        group.totals([0.0])
        yield


def find_result(folder: Path, config: RunConfig) -> Result | None:
    """Return the result of a finished run of this configuration; None if it is not finished.

    Raises:
        ArgumentError: if the folder belongs to another configuration.
    """
    result = read_result(folder)
    if result is None:
        return None
    if result.config_sha256 != config.digest:
        raise _other(folder)
    # They are left if the process died between writing the result and deleting them.
    Checkpoints(folder).remove()
    remove_temporaries(folder)
    return result


def check_folder(folder: Path, config: RunConfig) -> None:
    """Raise an :class:`ArgumentError` if the folder belongs to another run or has other files."""
    names = set(list_folder(folder))
    if CONFIG in names and read_config(folder)["config_sha256"] != config.digest:
        raise _other(folder)
    if CONFIG not in names and names - {LOCK}:
        raise ArgumentError(
            f"out: {folder} holds other files",
            got=", ".join(sorted(names)[:3]),
            fix="name a new or empty folder",
        )


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of ``config.json``: ``config_sha256`` and ``config``."""
    content = find_json(folder / CONFIG)
    if content is None:
        raise ArgumentError("there is no run in this folder", got=str(folder))
    if not {"config", "config_sha256"} <= content.keys():
        raise DamagedFileError(
            f"{folder / CONFIG} is not a configuration of this version", fix="choose another folder"
        )
    return content


def check_saved(saved: Saved, setup: TrainingSetup, allow_inexact: bool) -> list[str]:
    """Return what has changed since the checkpoint.

    Args:
        saved: the checkpoint.
        setup: the run now.
        allow_inexact: whether changes of the environment are allowed.

    Raises:
        ArgumentError: if the data changed, or the environment did and that is not allowed.
    """
    if saved.identity != setup.identity:
        raise ArgumentError(
            "the data are not those the run was started with",
            got=f"sha256 {setup.identity['data']}",
            allowed=f"sha256 {saved.identity.get('data')}",
            fix="restore the data, or choose another folder",
        )
    changes = differences(saved.environment, setup.environment)
    if changes and not allow_inexact:
        raise ArgumentError(
            "the run was started under other conditions, and would not end in the same bits",
            got="; ".join(changes),
            fix="restore them, or set allow_inexact=True",
        )
    return changes


def _start(loop: Loop) -> Start:
    """Return what watchers are told at the start."""
    batches = loop.setup.batches
    progress = loop.progress
    return Start(
        config=loop.config,
        model=loop.model,
        step=progress.step,
        epoch=progress.epoch,
        epochs=loop.recipe.total_epochs,
        steps_per_epoch=loop.setup.steps_per_epoch,
        examples=batches.examples,
    )


def _other(folder: Path) -> ArgumentError:
    """Return the error of a folder that belongs to another run."""
    return ArgumentError(
        f"out: {folder} belongs to a run of another configuration, and was not changed",
        fix="choose another folder, or delete that one",
    )


def records(folder: str | Path) -> list[dict[str, Any]]:
    """Return the metrics that a run has written so far, one record per epoch."""
    return Journal(Path(folder) / METRICS).read()
