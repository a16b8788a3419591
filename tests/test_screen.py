"""What a result shows of itself fits a screen, in a terminal and in a notebook."""

import torch
from torch import nn

import gatewise as gw
from gatewise.words import SCREEN_COLUMNS, SCREEN_LINES

DEPTH = 50  # more layers than a screen has lines


def deep_network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Flatten()]
    for _ in range(DEPTH):
        layers += [nn.Linear(16, 16), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(16, 3)).eval()


def test_every_result_fits_a_screen_and_says_so_in_a_notebook() -> None:
    model = deep_network()
    x = torch.randn(8, 1, 4, 4)
    swapped = gw.swap(model, "silu", x)
    diagnosis = gw.diagnose(model, x, questions=["sites", "gates", "pairing"])
    runs = [{"method": m, "seed": s, "value": s + (m == "b")} for s in range(5) for m in "ab"]
    results = [
        gw.find_sites(model, x),
        gw.plan(model, "silu", x),
        gw.receipt(swapped),
        diagnosis,
        *diagnosis.answers,
        gw.gates(model, [x]),
        gw.cost(model, x),
        gw.identify(model, x),
        gw.compare_records(runs, mode="max"),
        gw.sparsify(model, torch.randn(64, 1, 4, 4)),
    ]
    for result in results:
        lines = repr(result).splitlines()
        kind = type(result).__name__
        assert len(lines) <= SCREEN_LINES + 1, (kind, len(lines))
        assert max(map(len, lines)) <= 4 * SCREEN_COLUMNS, kind
        assert len(repr(result)) <= SCREEN_LINES * SCREEN_COLUMNS, kind
        assert result._repr_html_().startswith("<"), kind
    assert f"... {DEPTH + 1 - SCREEN_LINES} more lines" in repr(results[0])


def test_print_shows_all_lines_of_a_plan() -> None:
    model = deep_network()
    text = str(gw.plan(model, "silu", torch.randn(8, 1, 4, 4)))
    assert len(text.splitlines()) >= DEPTH and "more lines" not in text
