"""Find out whether the code of a model reshapes channels to a fixed size, by running it."""

from torch import nn

from gatewise.graph import RESHAPES, SiteGraph, split_example, untouched
from gatewise.surgery.installing import execute_plan
from gatewise.surgery.planning import PlanData
from gatewise.surgery.proof import run
from gatewise.surgery.rewrite import Transaction, copy_with_same_tensors


def runs_with_its_sizes(plan: PlanData, model: nn.Module) -> bool:
    """Return whether the changed model runs on the examples of ``plan``.

    A graph does not tell sizes that the code computes from sizes that are numbers in the code. So
    the plan is carried out on a copy of the modules, and the copy is run in each mode. Models
    whose reshapes have no sizes that may be wrong are not run.
    """
    modes = ("eval",) if plan.graph is None else tuple(plan.graph.readings)
    if not plan.edits or (plan.graph is not None and not _reshapes_to_sizes(plan.graph)):
        return True
    with untouched(model):
        trial = copy_with_same_tensors(model)
        execute_plan(plan, Transaction(trial))
        for mode in ("eval", "train"):
            for example in plan.examples if mode in modes else ():
                arguments = split_example(example)
                try:
                    run(trial, arguments, training=mode == "train", dtype=None, largest=0)
                except Exception:  # the model's own code may raise anything
                    return False
    return True


def _reshapes_to_sizes(graph: SiteGraph) -> bool:
    """Whether a reshape has a size, other than -1, behind its first dimension."""
    for reading in graph.readings.values():
        for node in reading.graph:
            sizes = node.arguments.get("shape") or node.arguments.get("size") or ()
            if node.op in RESHAPES and any(size != -1 for size in sizes[1:]):
                return True
    return False
