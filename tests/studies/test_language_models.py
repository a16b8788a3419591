"""Gates of a small language model compared by the engine of studies."""

import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from gatewise.data import load
from gatewise.errors import ArgumentError
from gatewise.files import read_tensors
from gatewise.models import create_model
from gatewise.studies import Study
from gatewise.studies.older import RunOptions, make_groups, run_study
from gatewise.train import metric_mode, run_config, train

HERE = RunOptions(on="here")
DATA = {"train": 24, "test": 10, "length": 16}
MODEL = {"width": 16, "depth": 1, "heads": 2}
RECIPE = {"epochs": 2, "batch": 8, "optimiser": {"name": "adamw", "lr": 1e-2}}
TABLE = {
    "units": ["gelu", "swiglu"],
    "seeds": 2,
    "backbones": [{"name": "llama", "model": "small_llama", "options": MODEL}],
    "data": [{"name": "text", "options": DATA}],
    "recipe": RECIPE,
    "match": "parameters",
    "match_within": 0.01,
    "metric": "test_bits_per_byte",
    "tune": False,
}


def test_two_gates_are_compared_in_bits_per_byte(tmp_path: Path):
    found = run_study(Study.of(TABLE), tmp_path / "study", HERE)
    assert found is not None and len(found.records) == 4
    assert found.metric == "test_bits_per_byte" and not found.higher_is_better
    for record in found.records:
        metrics = record["metrics"]
        assert record["status"] == "finished" and "test_accuracy" not in metrics
        nats = metrics["test_loss"]
        assert metrics["test_bits_per_byte"] == pytest.approx(nats / math.log(2), rel=1e-12)
        assert metrics["test_bits_per_byte"] < 8.5  # 8 bits are a guess
    (block,) = found.blocks
    values = found.values(block)
    assert set(values) == {"gelu", "swiglu"} and found.compare_block(block) is not None


@pytest.mark.thorough
def test_a_study_with_tuned_rates_finishes(tmp_path: Path):
    tune = {"lr": [1e-4, 1e-2], "seeds": 1, "folds": 3, "epochs": 1}
    study = Study.of({**TABLE, "tune": tune, "seeds": 1})
    found = run_study(study, tmp_path / "study", HERE)
    assert found is not None and found.records
    assert {record["status"] for record in found.records} == {"finished"}


def test_the_reported_loss_is_that_of_the_kept_weights(tmp_path: Path):
    """Computed again without the trainer: all test bytes at once, in float64."""
    recipe = {**RECIPE, "loss": {"label_smoothing": 0.1}}  # must not enter the reported loss
    config = run_config(
        model="small_gpt",
        unit="reglu",
        model_options=MODEL,
        data="text",
        data_options=DATA,
        recipe=recipe,
    )
    result = train(config, tmp_path / "run", data=load("text", **DATA))
    assert result is not None and result.status == "finished"
    model = create_model("small_gpt", unit="reglu", length=16, **MODEL)
    model.load_state_dict(read_tensors(tmp_path / "run" / "weights.safetensors")[0])
    test = load("text", **DATA).test
    with torch.no_grad():
        outputs = model.double().eval()(test.images.long())
    again = F.cross_entropy(outputs.flatten(0, 1), test.labels.flatten()).item()
    # The trainer computes in float32: logits of size 1 are right to some 1e-6.
    assert result.metrics["test_loss"] == pytest.approx(again, abs=1e-5)
    assert again < math.log(256)  # it has learned something


def test_bits_per_byte_are_better_if_lower():
    assert metric_mode("test_bits_per_byte") == metric_mode("bpb") == "min"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "test_accuracy"}, "test_loss or test_bits_per_byte"),
        ({"data": ["digits"]}, "cannot read these data"),
        ({"backbones": ["mlp"]}, "cannot read these data"),
        ({"backbones": ["mlp"], "data": ["digits"]}, "test_loss or test_accuracy"),
        ({"recipe": {**RECIPE, "augment": {"shift": 1}}}, "text cannot be augmented"),
        ({"recipe": {**RECIPE, "loss": {"name": "mse"}}}, "does not go with text"),
        ({"units": ["gelu", "psc"]}, "cannot stand in a feed-forward part"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(changes: dict, message: str):
    with pytest.raises(ArgumentError, match=message):
        make_groups(Study.of({**TABLE, "match": "none"} | changes))


def test_the_preset_has_eight_gates_of_equal_size():
    study = Study.load("gates_text")
    groups = make_groups(study)
    names = {"relu", "gelu", "silu", "relu2", "xielu", "reglu", "geglu", "swiglu"}
    assert {group.place.unit for group in groups} == names
    assert len(study.table.seeds) == 8 and study.table.tune.name == "custom"
    assert not any(group.matched for group in groups)  # the decoder's own widths agree
