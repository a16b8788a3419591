"""Random programs: what a receipt calls proved is what the generator says it must be."""

import copy
import random
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from surgery.random_programs import WIDTH, Generated, generate
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError, RectifiedInputWarning
from gatewise.surgery.proof import SwapFailed

CHOICES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("silu", {}),
    ("silu", {}),
    ("gelu", {}),
    ("psc", {"preserve": True, "put_back": True}),
    ("concat_act", {"preserve": True}),
)
FUNCTIONS = {"silu": F.silu, "gelu": F.gelu, "psc": F.relu, "concat_act": F.relu}
BATCH = 25


def inputs(condition: str, path: bool) -> tuple[torch.Tensor, dict]:
    """An input that takes one of the two paths."""
    rows = torch.randn(6 if path and "shape" in condition else 3, WIDTH)
    if "sum" in condition:
        rows = rows.abs() + 0.1 if path else -rows.abs() - 0.1
    return rows, {"flag": path} if condition == "flag" else {}


def check(model_of: Generated, seed: int, dtype: torch.dtype) -> str:
    """Swap, and compare with the generator's own text. Returns what happened."""
    rng = random.Random(seed)  # noqa: S311  no secret
    torch.manual_seed(seed)
    unit, options = rng.choice(CHOICES)
    both = rng.random() < 0.5
    if both:  # put_back is planned on one example only
        options = {name: value for name, value in options.items() if name != "put_back"}
    model = model_of.kind().eval().to(dtype)
    paths = {path: inputs(model_of.condition, path) for path in (False, True)}
    examples = []
    for path in (False, True) if both else (rng.random() < 0.5,):
        rows, kwargs = paths[path]
        examples.append({"x": rows.to(dtype), **kwargs})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RectifiedInputWarning)
            plan = gw.plan(model, unit, examples, **options)
            changed = plan.apply(model, inplace=False)
    except (SwapFailed, ArgumentError):
        return "refused"
    receipt = gw.receipt(changed)
    if not receipt.proved:
        return "not proved"
    if not both and not receipt.unreached:
        return "WRONG: the other path is not named"
    acts = [F.relu] * len(model_of.lines)
    rewritten = {entry.call.position[0] for entry in plan.swapped if entry.call is not None}
    replaced = {entry.path for entry in plan.swapped if entry.call is None}
    for number, (line, module) in enumerate(zip(model_of.lines, model_of.modules, strict=True)):
        if line in rewritten or module in replaced:
            acts[number] = FUNCTIONS[unit]
    wide = copy.deepcopy(model).float()
    for example in examples:
        arguments = dict(example)
        rows = arguments.pop("x").float()
        with torch.no_grad():
            expected = wide.truth(rows.clone(), acts, **arguments)
            actual = copy.deepcopy(changed).float()(rows.clone(), **arguments)
        apart = float((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-3))
        if not apart <= 1e-3:
            return f"WRONG: {apart:.3g}"
    return "right"


def count(seeds: range, folder: Path, types: tuple[torch.dtype, ...]) -> Counter[str]:
    """What happened, over all seeds and types; the seed is in it for what went wrong."""
    outcomes: Counter[str] = Counter()
    for first in range(seeds.start, seeds.stop, BATCH):
        some = range(first, min(first + BATCH, seeds.stop))
        for seed, model in zip(some, generate(some, folder), strict=True):
            for dtype in types:
                outcome = check(model, seed, dtype)
                outcomes[f"{seed} {dtype} {outcome}" if "WRONG" in outcome else outcome] += 1
    return outcomes


def test_the_text_of_the_generator_is_what_the_model_computes(tmp_path: Path):
    """The oracle itself: with the original's activations, ``truth`` is ``forward``."""
    for seed, model_of in zip(range(60), generate(range(60), tmp_path), strict=True):
        torch.manual_seed(seed)
        model: nn.Module = model_of.kind().eval()
        for path in (False, True):
            rows, kwargs = inputs(model_of.condition, path)
            with torch.no_grad():
                expected = model.truth(rows.clone(), [F.relu] * len(model_of.lines), **kwargs)
                assert torch.allclose(model(rows.clone(), **kwargs), expected, atol=1e-5), seed


DTYPES = [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_no_receipt_of_a_random_program_is_wrong(tmp_path: Path, dtype: torch.dtype):
    outcomes = count(range(12), tmp_path, (dtype,))
    assert not any("WRONG" in outcome for outcome in outcomes), outcomes
    assert outcomes["right"] >= 6, outcomes


@pytest.mark.slow
def test_no_receipt_of_2000_random_programs_is_wrong(tmp_path: Path):
    outcomes = count(range(2000), tmp_path, (torch.float32, torch.bfloat16))
    assert not any("WRONG" in outcome for outcome in outcomes), outcomes
    assert outcomes["right"] >= 2400, outcomes
