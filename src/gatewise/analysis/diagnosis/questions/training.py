"""Questions about training: how gates and regions changed from checkpoint to checkpoint."""

import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.one_output import OneOutput
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.questions.regions import plane_facts, region_facts, soft_line
from gatewise.analysis.diagnosis.window import (
    REGIONS_OF_A_FRAME,
    WIDEST,
    grid_steps,
    widest_partition,
)
from gatewise.analysis.diagnosis.words import percentage, plural, rounded
from gatewise.analysis.gating import GateFlips, SiteStream, flips_between
from gatewise.analysis.regions import Film, Partition, SoftPartition, is_soft, partition
from gatewise.errors import Limitation, NotApplicableError

INPUTS = 400  # whose gates are compared
FRAME_SECONDS = 0.4  # in the film
HALVINGS = 6  # of the window of a film, at most
Frame = Partition | SoftPartition


def _answer_flips(context: DiagnosisContext) -> Finding:
    """Count the gates that are on at one checkpoint and off at the next."""
    context.check_gates()
    results = _flips(context)
    names = context.checkpoints.names
    rows = []
    for place, result in enumerate(results):
        rows.append(_step_facts(result, names[place], names[place + 1]))
    last = rows[-1]
    line = (
        f"From {last['from']} to {last['to']}, {percentage(last['flipped'])} of the gates changed; "
        f"unrelated gates would give {percentage(last['chance'])}."
    )
    if len(rows) > 1:
        first = rows[0]
        line += f" From {first['from']} to {first['to']} it was {percentage(first['flipped'])}."
    return Finding(line, {"steps": rows, "given": context.checkpoints.given}, results)


def _flips(context: DiagnosisContext) -> list[GateFlips]:
    """Compare each checkpoint with the next.

    Two copies of the model take turns, so that the graph of each is read only once.
    """
    checkpoints = context.checkpoints
    batches = context.inputs.first_pairs(INPUTS)
    streams = [SiteStream("flips", copy.deepcopy(context.model)) for _ in range(2)]
    checkpoints.load_into(streams[0].model, 0)
    results = []
    for place in range(1, len(checkpoints.names)):
        before = streams[(place - 1) % 2]
        after = streams[place % 2]
        checkpoints.load_into(after.model, place)
        results.append(flips_between(before, after, batches))
        context.progress(place, len(checkpoints.names) - 1)
    return results


def _step_facts(result: GateFlips, before: str, after: str) -> dict[str, Any]:
    """Return the means of one step, over all channels and for each site."""
    sites = []
    for site in result.sites:
        row = {
            "site": site.name,
            "channels": len(site.flip_rate),
            "flipped": float(site.flip_rate.mean()),
            "chance": float(site.chance.mean()),
        }
        sites.append(row)
    return {
        "from": before,
        "to": after,
        "flipped": float(torch.cat([site.flip_rate for site in result.sites]).mean()),
        "chance": float(torch.cat([site.chance for site in result.sites]).mean()),
        "sites": sites,
    }


def _answer_film(context: DiagnosisContext) -> Finding:
    """Divide one window of a plane through three inputs at every checkpoint."""
    context.check_plane()
    names = list(context.checkpoints.names)
    frames, extent = _frames(context)
    facts: dict[str, Any] = {
        "names": names,
        "given": context.checkpoints.given,
        "exact": isinstance(frames[0], Partition),
        **plane_facts(frames[0].slice, extent),
        "frames": [_frame_facts(frame) for frame in frames],
    }
    film = Film(tuple(frames), FRAME_SECONDS)
    return Finding(_film_line(names, facts["frames"]), facts, film)


def _film_line(names: list[str], frames: list[dict[str, Any]]) -> str:
    """Compare the first and the last frame in words."""
    first = frames[0]
    last = frames[-1]
    if "count" not in first:
        return soft_line(f"{first['mean']:.2f} at {names[0]} and {last['mean']:.2f} at the end")
    regions = plural(first["count"], "linear region")
    pictures = plural(len(frames), "picture")
    return f"{regions} at {names[0]} and {last['count']:,} at the end, in one window. {pictures}."


def _frames(context: DiagnosisContext) -> tuple[list[Frame], float]:
    """Return the plane at every checkpoint, and the width of the window that all share."""
    points = context.inputs.of_each_class(3)
    if is_soft(context.reading.graph, context.model):
        count = len(context.checkpoints.names)
        steps = max(8, round(grid_steps(context, points) / count**0.5))
        return _at_each(context, partial(partition, three_points=points, steps=steps)), WIDEST
    until = time.monotonic() + context.seconds
    # Earlier checkpoints may have more regions in the window that suits the last one.
    limit = 2 * REGIONS_OF_A_FRAME
    share = context.seconds / 3
    _, extent = widest_partition(context, points, seconds=share, most=REGIONS_OF_A_FRAME)
    for _ in range(HALVINGS):
        divide = partial(partition, three_points=points, extent=extent, limit=limit)
        try:
            return _at_each(context, divide), extent
        except NotApplicableError as problem:
            too_many = problem.limitation is Limitation.TOO_MANY_REGIONS
            if not too_many or time.monotonic() > until:
                raise
        extent /= 2
    raise NotApplicableError(
        Limitation.TOO_LARGE, "no window is small enough to count the regions of every checkpoint"
    )


def _at_each(context: DiagnosisContext, divide: Callable[[nn.Module], Frame]) -> list[Frame]:
    """Call ``divide`` with a copy of the model at every checkpoint."""
    model = copy.deepcopy(context.model)
    one_tensor = context.function is context.model
    count = len(context.checkpoints.names)
    frames = []
    for place in range(count):
        context.checkpoints.load_into(model, place)
        frames.append(divide(model if one_tensor else OneOutput(model)))
        context.progress(place + 1, count)
    return frames


def _frame_facts(frame: Frame) -> dict[str, Any]:
    """Return the regions of a frame, or for a soft network its map of the gates' entropy."""
    if isinstance(frame, Partition):
        return region_facts(frame)
    return {"mean": float(frame.entropy.mean()), "entropy": rounded(frame.entropy.tolist(), 4)}


FLIPS = Question(
    "flips", "Which gates changed between checkpoints?", _answer_flips, compares_checkpoints=True
)
FILM = Question(
    "film",
    "How did the linear regions change over the checkpoints?",
    _answer_film,
    compares_checkpoints=True,
)
