"""What the library does with one real model: a dict of plain values."""

import copy
import gc
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

import gatewise as gw
from gatewise.errors import GatewiseError
from real_models.catalogue import Loaded, RealModel

DIAGNOSED = 2  # batches that a diagnosis reads
CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")


def row_of(real: RealModel) -> dict[str, Any]:
    """Return everything about one model.

    Args:
        real: the model, whose packages are in the cache.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    row: dict[str, Any] = {"model": real.name, "unit": real.unit, "widening": real.widening}
    with measured(row, "load"):
        loaded = real.load()
        row["evidence"] = loaded.evidence
        row["right"] = loaded.right
    row["parameters"] = sum(weight.numel() for weight in loaded.model.parameters())
    row["measure"] = loaded.measure
    row["before"] = loaded.quality(loaded.model)
    steps: dict[str, Callable[[], None]] = {
        "sites": lambda: _read(row, loaded),
        "identify": lambda: _identify(row, loaded),
        "gates": lambda: _gates(row, loaded),
        "tails": lambda: _tails(row, loaded),
        "swap": lambda: _swap(row, loaded, real.unit),
        "widen": lambda: _widen(row, loaded, real.widening),
        "diagnose": lambda: _diagnose(row, loaded),
        "sparsify": lambda: _sparsify(row, loaded),
    }
    for name, step in steps.items():
        with measured(row, name):
            try:
                step()
            except GatewiseError as problem:
                row[name] = {"refused": _reason(problem)}
    return row


def _reason(problem: GatewiseError) -> str:
    """Return what an error says is wrong and what was given, without how to fix it."""
    return str(problem).partition("; fix: ")[0].splitlines()[0]


@contextmanager
def measured(row: dict[str, Any], name: str) -> Iterator[None]:
    """Add processor time and the largest memory of a step to a row.

    Args:
        row: it gets ``<name> seconds`` and ``<name> bytes``.
        name: of the step.
    """
    gc.collect()
    if CLEAR.exists():
        CLEAR.write_text("5")  # from here on, the largest memory is counted again
    start = time.process_time()
    yield
    row[f"{name} seconds"] = time.process_time() - start
    row[f"{name} bytes"] = largest_memory()


def largest_memory() -> int:
    """Return the most bytes that this process has held since they were counted again."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def unlabelled(batch: Any) -> Any:
    """Return the inputs of a batch without its labels.

    Args:
        batch: a tensor, a pair of inputs and labels, or a dict of arguments.
    """
    if isinstance(batch, Mapping):
        return {name: value for name, value in batch.items() if name != "labels"}
    return batch[0] if isinstance(batch, tuple) else batch


@torch.no_grad()
def outputs(model: nn.Module, example: Any) -> list[Tensor]:
    """Return the tensors that a model returns.

    Args:
        model: any module.
        example: a tensor or a dict of arguments.
    """
    found = model(**example) if isinstance(example, Mapping) else model(example)
    return [each for each in tree_leaves(found) if isinstance(each, Tensor)]


def same(first: list[Tensor], second: list[Tensor]) -> bool:
    """Return whether tensors are equal to the bit.

    Args:
        first: of one model.
        second: of another.
    """
    pairs = zip(first, second, strict=True)
    return len(first) == len(second) and all(torch.equal(*pair) for pair in pairs)


def _read(row: dict[str, Any], loaded: Loaded) -> None:
    graph = gw.find_sites(loaded.model, loaded.example)
    row["sites"] = dict(Counter(f"{site.op} ({site.role})" for site in graph))


def _identify(row: dict[str, Any], loaded: Loaded) -> None:
    found = gw.identify(loaded.model, loaded.example)
    row["identify"] = dict(Counter(each.name or each.function for each in found.sites))
    for line in str(found).splitlines():
        if line.startswith("the configuration says "):
            row["configuration"] = line.removeprefix("the configuration says ")


def _gates(row: dict[str, Any], loaded: Loaded) -> None:
    found = gw.gates(loaded.model, [unlabelled(batch) for batch in loaded.batches])
    row["gates"] = {
        "channels": sum(len(site.on_rate) for site in found.sites),
        "dead": sum(len(site.dead) for site in found.sites),
        "always off": sum(len(site.always_off) for site in found.sites),
        "always on": sum(len(site.always_on) for site in found.sites),
    }


def _tails(row: dict[str, Any], loaded: Loaded) -> None:
    """Of language models: how far tensors at activations reach, and what clamps cost in loss."""
    batches = loaded.batches[-DIAGNOSED:]
    if not isinstance(batches[0], Mapping) or "labels" not in batches[0]:
        return
    found = gw.analysis.tails(loaded.model, batches, seconds=0)
    reach: dict[str, tuple[float, float]] = {}
    for each in found.branches:
        least, most = reach.get(each.branch, (each.least, each.most))
        reach[each.branch] = (min(least, each.least), max(most, each.most))
    costs = {f"{each.limit:g}": each.cost for each in found.costs}
    row["tails"] = {"reach": reach, "loss": found.loss, "clamps": costs}


def _swap(row: dict[str, Any], loaded: Loaded, unit: str) -> None:
    model = loaded.model
    before = outputs(model, loaded.example)
    changed = gw.swap(model, unit, loaded.example, preserve=False)
    receipt = gw.receipt(changed)
    after = outputs(changed, loaded.example)
    row["swap"] = {
        "sites": len(receipt.sites),
        "refused": len(receipt.refused),
        "receipt": "" if receipt.proof is None else receipt.proof.verdict.upper(),
        "quality": loaded.quality(changed),
        "saved and loaded": _saved(model, changed, after, loaded.example),
    }
    row["swap"]["undone"] = same(before, outputs(gw.undo(changed), loaded.example))


def _saved(model: nn.Module, changed: nn.Module, after: list[Tensor], example: Any) -> bool:
    """Return whether a new model with the swaps of a file and the weights is the changed model."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "swaps.json"
        gw.save_swaps(changed, file)
        again = gw.load_swaps(copy.deepcopy(model), file)
    again.load_state_dict(changed.state_dict())
    return same(after, outputs(again, example))


def _widen(row: dict[str, Any], loaded: Loaded, unit: str) -> None:
    before = outputs(loaded.model, loaded.example)
    changed = gw.swap(loaded.model, unit, loaded.example, preserve=True, width="same")
    receipt = gw.receipt(changed)
    row["widen"] = {
        "sites": len(receipt.sites),
        "refused": len(receipt.refused),
        "receipt": "" if receipt.proof is None else receipt.proof.verdict.upper(),
        "parameters": receipt.parameters[1] / receipt.parameters[0],
        "quality": loaded.quality(changed),
        "undone": same(before, outputs(gw.undo(changed), loaded.example)),
    }


def _diagnose(row: dict[str, Any], loaded: Loaded) -> None:
    found = gw.diagnose(loaded.model, [unlabelled(each) for each in loaded.batches[:DIAGNOSED]])
    row["diagnose"] = {
        "answers": dict(Counter(answer.state for answer in found.answers)),
        "advice": len(found.advice),
    }


def _sparsify(row: dict[str, Any], loaded: Loaded) -> None:
    found = gw.sparsify(loaded.model, loaded.batches, target=0.5, levels=(), per_layer=False)
    row["sparsify"] = {
        "zeros": found.sparsity,
        "skipped": found.skipped,
        "quality": loaded.quality(found.model),
        "ratio": None if found.timing is None else found.timing.ratio,
        "words": str(found),
    }
