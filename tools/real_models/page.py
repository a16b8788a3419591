"""The page ``docs/real_models.md``: one row a model."""

from collections.abc import Mapping, Sequence
from typing import Any

from real_models.calls import quotations
from real_models.catalogue import MODELS
from real_models.packages import packages

HEAD = """# What the library does with real models

Written by `make real`. The weights come from package indexes, each file by its digest. Every model
is loaded into the code that it was trained with or a network of the same form, and a number shows
that it was loaded rightly. Nothing here is a random network.

- *sites*: activations that were found, by name.
- *functions*: what `gatewise.identify` says they compute, by their values alone.
- *dead*: channels whose output is the same for all inputs, with a slope of zero there, of how many.
- *always off*, *always on*: other channels whose gate is never on, or never off.
- *swap*: all activations at once, without keeping the function: how many sites changed of how many,
  the verdict of the receipt, and the quality before and after, without any training.
- *wider*: `crelu` or `concat_act`, which keep the function: the same, and the factor of parameters.
- *undo*: whether the swapped model, after `gatewise.undo`, returns the same outputs to the bit;
  *file*: whether a new model with the swaps of a file and the weights does.

Inputs are few, so small differences of a quality mean nothing. Sounds are made by a formula.
Seconds are those of one processor core.
"""
SPARSE = """
## Sparse activations

`gatewise.sparsify(model, data, target=0.5)`, without training. *Ratio*: time with thresholds by
time without, for what the receipt names.

| model | zeros | weights not read | quality | ratio |
|---|---|---|---|---|
"""
TAILS = """
## Configurations, and clamps

What `gatewise.identify` says of the configuration, and `gatewise.analysis.tails` of the numbers at
all activations and of the loss if the gate is clamped from above and the up branch on both sides.

| model | configuration | gate | up | product | clamp at 7 | clamp at 10 |
|---|---|---|---|---|---|---|
"""
COSTS = """
## Time and memory

Processor seconds and the most memory of the process in each step, with Python, torch and the model.

| model | parameters | load | sites | identify | gates | swap | wider | diagnose | sparsify |
|---|---|---|---|---|---|---|---|---|---|
"""
SOURCES = """
## Where they come from

| model | packages | licence | loaded rightly, since |
|---|---|---|---|
"""
STEPS = ("load", "sites", "identify", "gates", "swap", "widen", "diagnose", "sparsify")


def page_of(rows: Mapping[str, Mapping[str, Any]], calls: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page.

    Args:
        rows: of the models that were run, by name.
        calls: code and output of the calls that the README quotes, by name.
    """
    known = [rows[each.name] for each in MODELS if each.name in rows]
    lines = [HEAD, *_table(known), SPARSE.rstrip("\n")]
    lines += [_sparse(row) for row in known]
    lines.append(TAILS.rstrip("\n"))
    lines += [_tails(row) for row in known if "tails" in row]
    lines += quotations(calls)
    lines += [COSTS.rstrip("\n"), *map(_costs, known), SOURCES.rstrip("\n")]
    lines += [_source(row) for row in known]
    return "\n".join(lines) + "\n"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| model | sites | functions | dead | always off | always on | swap | quality | undo, file "
        "| wider | quality | undo |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        gates = row["gates"]
        channels = gates.get("channels")
        cells = [row["model"], _counts(row["sites"]), _counts(row["identify"])]
        if channels is None:
            cells += [_refusal(gates), "", ""]
        else:
            cells.append(f"{gates['dead']:,} of {channels:,}")
            cells += [f"{gates['always off']:,}", f"{gates['always on']:,}"]
        cells += _swap_cells(row, "swap", row["unit"])
        cells += _swap_cells(row, "widen", row["widening"])
        lines.append(_line(cells))
    return lines


def _swap_cells(row: Mapping[str, Any], step: str, unit: str) -> list[str]:
    found = row[step]
    if "refused" in found and "sites" not in found:
        return [f"{unit}: {_refusal(found)}", "", ""]
    total = found["sites"] + found["refused"]
    words = f"{unit}: {found['sites']} of {total}, {found['receipt'].lower()}"
    if "parameters" in found:
        words += f", x {found['parameters']:.2f}"
    same = [_yes(found["undone"])]
    if "saved and loaded" in found:
        same.append(_yes(found["saved and loaded"]))
    return [words, _change(row, found["quality"]), ", ".join(same)]


def _sparse(row: Mapping[str, Any]) -> str:
    found = row["sparsify"]
    if "zeros" not in found:
        return _line([row["model"], _refusal(found), "", "", ""])
    ratio = "not timed" if found["ratio"] is None else f"{found['ratio']:.2f}"
    shares = [f"{found['zeros']:.1%}", f"{found['skipped']:.1%}"]
    return _line([row["model"], *shares, _change(row, found["quality"]), ratio])


def _tails(row: Mapping[str, Any]) -> str:
    reach = row["tails"]["reach"]
    ranges = []
    for branch in ("gate", "up", "product"):
        least, most = reach[branch]
        ranges.append(f"{least:,.0f} to {most:,.0f}")
    clamps = row["tails"]["clamps"]
    costs = [clamps.get(limit, "no effect") for limit in ("7", "10")]
    return _line([row["model"], row["configuration"], *ranges, *costs])


def _costs(row: Mapping[str, Any]) -> str:
    cells = [row["model"], f"{row['parameters']:,}"]
    for step in STEPS:
        cells.append(f"{row[f'{step} seconds']:.1f} s, {row[f'{step} bytes'] / 2**30:.1f} GB")
    return _line(cells)


def _source(row: Mapping[str, Any]) -> str:
    (model,) = [each for each in MODELS if each.name == row["model"]]
    known = packages()
    names = [f"{name} {known[name].version}" for name in model.packages]
    licences = dict.fromkeys(known[name].licence for name in model.packages[:1])
    if not row["right"]:
        raise ValueError(f"{row['model']} was not loaded rightly: {row['evidence']}")
    return _line([row["model"], ", ".join(names), ", ".join(licences), row["evidence"]])


def _counts(found: Mapping[str, Any]) -> str:
    if "refused" in found:
        return _refusal(found)
    return ", ".join(f"{count} {name}" for name, count in found.items())


def _refusal(found: Mapping[str, Any]) -> str:
    return f"refused: {found['refused']}"


def _change(row: Mapping[str, Any], after: float) -> str:
    if row["measure"] == "perplexity":
        return f"perplexity {row['before']:.2f} to {after:.2f}"
    return f"{row['measure']}: {row['before']:.1%} to {after:.1%}"


def _yes(value: bool) -> str:
    return "same" if value else "**differs**"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
