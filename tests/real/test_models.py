"""The smallest real models load rightly, and what a swap of them promises holds."""

import json
from pathlib import Path

import pytest
from real_models.calls import code_of
from real_models.catalogue import MODELS, SMALLEST, model_named
from real_models.page import page_of
from real_models.rows import outputs, row_of, same

import gatewise as gw

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "benchmarks" / "results" / "real_models.json"
QUOTED = ROWS.with_name("real_models_calls.json")


@pytest.mark.real
@pytest.mark.parametrize("name", SMALLEST)
def test_it_loads_rightly(name: str):
    loaded = model_named(name).load()
    assert loaded.right, loaded.evidence
    assert not loaded.model.training


@pytest.mark.real
def test_a_row_holds_what_undo_and_files_promise():
    row = row_of(model_named("MTCNN R-Net"))
    assert row["right"]
    assert row["swap"]["sites"] == 4
    assert row["swap"]["undone"]
    assert row["swap"]["saved and loaded"]
    assert row["gates"]["channels"] == 28 + 48 + 64 + 128
    assert row["diagnose"]["answers"] == {"answered": 4}
    assert 0.4 < row["sparsify"]["zeros"] < 0.6


@pytest.mark.real
def test_wrong_weights_are_noticed(monkeypatch: pytest.MonkeyPatch):
    from real_models import catalogue

    def shuffled(content: bytes) -> dict:
        weights = dict(original(content))
        kernel = weights["conv2.weight"]
        weights["conv2.weight"] = kernel.flip(0)  # the shapes are right, the order is not
        return weights

    original = catalogue.torch_weights
    monkeypatch.setattr(catalogue, "torch_weights", shuffled)
    assert not model_named("CREPE tiny").load().right


@pytest.mark.real
def test_a_preserving_swap_of_a_real_network_keeps_its_decisions():
    loaded = model_named("EfficientNet-Lite0").load()
    before = outputs(loaded.model, loaded.example)
    changed = gw.swap(
        loaded.model, "concat_act", loaded.example, width="same", preserve=True, where="_blocks.1.*"
    )
    assert gw.receipt(changed).proved
    (after,) = outputs(changed, loaded.example)
    assert float((after - before[0]).abs().max()) < 1e-4 * float(before[0].abs().max())
    assert same(before, outputs(gw.undo(changed), loaded.example))


def test_the_page_shows_the_rows_that_were_measured():
    rows = json.loads(ROWS.read_text("utf-8"))
    assert len(rows) >= 8
    assert set(rows) <= {model.name for model in MODELS}
    calls = json.loads(QUOTED.read_text("utf-8"))
    assert (ROOT / "docs" / "real_models.md").read_text("utf-8") == page_of(rows, calls)


def test_no_row_of_a_wrong_model_is_printed():
    rows = json.loads(ROWS.read_text("utf-8"))
    name = next(iter(rows))
    with pytest.raises(ValueError, match="not loaded rightly"):
        page_of({name: rows[name] | {"right": False}}, {})


def test_the_readme_quotes_calls_and_outputs_as_they_were():
    """Lines of an output may be left out, which `...` says."""
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, call in json.loads(QUOTED.read_text("utf-8")).items():
        assert call["code"] == code_of(name), f"make real: the program of {name} has changed"
        code, _, rest = readme.partition(f"```python\n{call['code']}```\n\n```text\n")
        assert rest, f"the README does not show the call {name}"
        shown = rest.partition("```")[0].splitlines()
        printed = call["output"].splitlines()
        assert [line for line in printed if line in shown] == [
            line for line in shown if line != "..."
        ]
        assert len(shown) >= 3 and code
