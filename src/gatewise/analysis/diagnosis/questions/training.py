"""Questions about how a network came to be.

Which gates still moved between checkpoints, and how its regions did.
"""

import copy
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.one_output import with_one_output
from gatewise.analysis.diagnosis.questions.gate_activity import check_gates
from gatewise.analysis.diagnosis.questions.maps import check_one_output
from gatewise.analysis.diagnosis.questions.regions import plane_facts, region_facts
from gatewise.analysis.diagnosis.window import REGIONS_OF_A_FRAME, WIDEST, grid_steps, widest
from gatewise.analysis.diagnosis.words import plural, share
from gatewise.analysis.gating import GateFlips, SiteStream, flips_between
from gatewise.analysis.regions import Film, Partition, SoftPartition, is_soft, partition
from gatewise.errors import ArgumentError

BATCHES = 4  # of inputs whose gates are compared
PICTURE = 0.4  # seconds, in the film
NARROWER = 6  # times that the window of a film is halved at most


def ask_flips(subject: Subject) -> Finding:
    """How many gates changed from one checkpoint to the next?"""
    subject.moments.need_two()
    check_gates(subject)
    steps = _flips(subject)
    rows = [_step(found, *names) for found, names in steps]
    first, last = rows[0], rows[-1]
    line = (
        f"From {last['from']} to {last['to']} {share(last['flipped'])} of the gates changed sides, "
    )
    line += f"{share(last['chance'])} if they knew nothing of each other"
    if len(rows) > 1:
        line += f"; from {first['from']} to {first['to']} it was {share(first['flipped'])}"
    return Finding(
        f"{line}.", {"steps": rows, "given": subject.moments.given}, [found for found, _ in steps]
    )


def _flips(subject: Subject) -> list[tuple[GateFlips, tuple[str, str]]]:
    """From each moment to the next.

    Two copies of the model take turns, so that each is read once.
    """
    moments, batches = subject.moments, subject.inputs.pairs[:BATCHES]
    streams = [SiteStream("flips", copy.deepcopy(subject.model)) for _ in range(2)]
    moments.put_into(streams[0].model, 0)
    found = []
    for place in range(1, len(moments.names)):
        before, after = streams[(place - 1) % 2], streams[place % 2]
        moments.put_into(after.model, place)
        found.append((flips_between(before, after, batches), moments.names[place - 1 : place + 1]))
        subject.count(place, len(moments.names) - 1)
    return found


def _step(found: GateFlips, before: str, after: str) -> dict[str, Any]:
    sites = [
        {
            "site": each.name,
            "channels": len(each.flip_rate),
            "flipped": float(each.flip_rate.mean()),
            "chance": float(each.chance.mean()),
        }
        for each in found.sites
    ]
    flipped, chance = (
        torch.cat([getattr(each, key) for each in found.sites]) for key in ("flip_rate", "chance")
    )
    return {
        "from": before,
        "to": after,
        "flipped": float(flipped.mean()),
        "chance": float(chance.mean()),
        "sites": sites,
    }


def ask_film(subject: Subject) -> Finding:
    """How did the regions of a plane change from checkpoint to checkpoint?"""
    subject.moments.need_two()
    subject.check_one_tensor()
    check_one_output(subject)
    if subject.inputs.count < 3:
        raise DoesNotApply("too few inputs", "three are needed, for a plane")
    names = list(subject.moments.names)
    found, extent = _frames(subject)
    facts: dict[str, Any] = {
        "names": names,
        "given": subject.moments.given,
        "exact": isinstance(found[0], Partition),
    }
    facts |= plane_facts(found[0].slice, extent)
    facts["frames"] = [_frame(each) for each in found]
    return Finding(_film_line(names, facts["frames"]), facts, Film(tuple(found), PICTURE))


def _film_line(names: list[str], frames: list[dict[str, Any]]) -> str:
    first, last = frames[0], frames[-1]
    if "count" in first:
        told = f"{plural(first['count'], 'region')} at {names[0]}, {last['count']:,} at the end"
        return f"{told}, in one window; {plural(len(frames), 'picture')}."
    told = f"{first['mean']:.2f} at {names[0]}, {last['mean']:.2f} at the end"
    return f"Gates are soft, so there are no regions: they are undecided by {told}, of 1."


def _frames(subject: Subject) -> tuple[list[Partition | SoftPartition], float]:
    """The plane at every moment, in one window that all of them can be counted in, and how wide it is."""
    points, twin = subject.inputs.of_each_class(3), copy.deepcopy(subject.model)
    count = len(subject.moments.names)
    if is_soft(subject.reading.graph, subject.model):
        steps = max(8, round(grid_steps(subject, points) / count**0.5))
        return _at_each(subject, twin, partial(partition, three_points=points, steps=steps)), WIDEST
    until = time.monotonic() + subject.seconds
    extent = widest(subject, points, seconds=subject.seconds / 3, most=REGIONS_OF_A_FRAME)[1]
    for halvings in range(NARROWER):
        look = partial(
            partition,
            three_points=points,
            extent=extent / 2**halvings,
            limit=2 * REGIONS_OF_A_FRAME,
        )
        try:
            return _at_each(subject, twin, look), extent / 2**halvings
        except ArgumentError as problem:
            if "limit" not in str(problem) or time.monotonic() > until:
                raise
    raise DoesNotApply(
        "too large", "no window is small enough to count the regions of every checkpoint"
    )


def _at_each(
    subject: Subject, twin: nn.Module, look: Callable[[nn.Module], Partition | SoftPartition]
) -> list[Partition | SoftPartition]:
    found = []
    for place, _ in enumerate(subject.moments.names):
        at_moment = subject.moments.put_into(twin, place)
        found.append(look(with_one_output(at_moment, subject.tensors(1))))
        subject.count(place + 1, len(subject.moments.names))
    return found


def _frame(found: Partition | SoftPartition) -> dict[str, Any]:
    if isinstance(found, Partition):
        return region_facts(found)
    entropy = [[round(each, 4) for each in row] for row in found.entropy.tolist()]
    return {"mean": float(found.entropy.mean()), "entropy": entropy}
