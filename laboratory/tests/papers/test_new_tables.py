"""The tables on CIFAR that stand for ImageNet, or for no table of a paper."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gatewise_papers.all_experiments import experiments
from gatewise_papers.common import (
    Claim,
    Findings,
    data_of,
    judge_better,
    judge_over_rates,
    rate_rows,
)
from gatewise_papers.common.experiment import take_runs_of
from gatewise_papers.crelu.experiments import (
    initial_network,
    table1,
    table4,
)
from gatewise_papers.crelu.experiments.shared import layer_tables, published
from gatewise_papers.iieu.experiments import cifar100, figure2
from gatewise_papers.maso.experiments import beta_forms
from gatewise_papers.not_here import NOT_HERE
from gatewise_papers.psc.experiments import cifar10
from loops import for_each

import gatewise as gw
from gatewise.data import ten_crop
from gatewise.devices import describe_processor
from gatewise.errors import ArgumentError
from gatewise.files import read_tensors
from gatewise.layers import Coupler
from gatewise.stats import FactorialRuns, factorial_progress, judge_factorial
from gatewise.stats.factorial import grid_steps
from gatewise.studies import (
    CellCall,
    CheckedStudy,
    ComparisonStudy,
    StudyFile,
    export_study,
    import_study,
    read_comparison,
)
from gatewise.train import WEIGHTS, StopSignal, build_model, run_config

# The numbers of every table and figure in the papers' texts; the supplement of PSC has none.
TABLES = {"crelu": 6, "deep_gated": 5, "iieu": 7, "maso": 2}
FIGURES = {"crelu": 6, "deep_gated": 10, "iieu": 2, "maso": 1}


def test_every_table_and_figure_is_an_experiment_or_has_a_reason():
    known = {*experiments(), *(one.name for one in NOT_HERE)}
    for kind, counts in (("table", TABLES), ("figure", FIGURES)):
        for paper, count in counts.items():
            assert {f"{paper}/{kind}{n}" for n in range(1, count + 1)} <= known


def test_cifar_100_in_any_order_is_accepted_at_every_scale():
    checked = set()
    for name, experiment in experiments().items():
        for scale, settings in experiment.scales.items():
            table = experiment.trainings(settings, (0,)) if experiment.trainings else {}
            for config in (config for configs in table.values() for config in configs):
                if config.data == "cifar100":
                    assert config.data_options["published"] is False, (name, scale)
                    checked.add(scale)
    assert checked == {"tiny", "desk", "full"}


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["crelu/table4", "iieu/figure2", "iieu/cifar100", "maso/beta_forms", "psc/cifar10"]
)
def test_an_experiment_runs_to_its_end(name: str, tmp_path: Path):
    result = experiments()[name].run("tiny", 2, tmp_path)
    for row in result.findings.rows:  # one large step on few images may diverge
        assert row.ours is not None or row.left_out == 2
    assert result.data_sha256 and result.findings.claims


def test_right_answers_are_counted_among_the_largest_outputs():
    outputs = torch.tensor([[0.1, 0.9, 0.5], [3.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    labels = torch.tensor([2, 0, 0])
    assert [table4.count_right(outputs, labels, top) for top in (1, 2, 3)] == [1, 2, 3]
    assert table4.count_right(outputs, labels, 5) == 3


def test_ten_patches_stand_beside_the_centre_crop_and_in_no_claim_about_it():
    full = table4.EXPERIMENT.scales["full"]
    assert full.columns == ("top-1", "top-5", "top-1 of ten patches", "top-5 of ten patches")
    assert table4.EXPERIMENT.scales["desk"].columns == ("top-1", "top-5")
    errors = {
        name: {what: [number] * 8 for what, number in zip(full.columns, printed, strict=True)}
        for name, printed in published.TABLE4.items()
    }
    rows = {row.what: row for row in table4._rows(full, errors)}
    assert len(rows) == 4 * len(published.TABLE4)
    patches = rows["CReLU (conv1,4,7): top-1 of ten patches error, %"]
    assert patches.ours == pytest.approx(35.70) and patches.published == 35.70
    best, better = table4._claims(errors)
    assert len(best.compared) == 2 * 5 and len(better.compared) == 4 * 5
    assert best.verdict.value == better.verdict.value == "supported"


@pytest.mark.data
def test_errors_of_ten_patches_are_those_of_the_mean_scores(tmp_path: Path):
    settings = replace(table4.EXPERIMENT.scales["tiny"], patch=28)
    first = table4.cells(settings, (0,))[0]
    call = CellCall(first.settings, {"name": first.name}, tmp_path, StopSignal())
    (found,) = first.function(call).values()
    (content,) = first.settings["configs"].values()
    config = run_config(**content)
    network = initial_network(config)
    network.load_state_dict(read_tensors(tmp_path / "run-0" / WEIGHTS)[0])
    data = data_of(config)
    mean, std = (torch.tensor(each).view(-1, 1, 1) for each in (data.mean, data.std))
    wrong = 0
    for image, label in zip(data.test.images, data.test.labels, strict=True):
        crops = ten_crop(image[None], 28)[0].float() / 255
        with torch.no_grad():
            scores = network.eval()((crops - mean) / std).mean(0)
        wrong += int(scores.argmax() != label)
    assert found["top-1 of ten patches"] == pytest.approx(100 * wrong / len(data.test.labels))


def test_the_printed_half_network_can_be_built():
    model = gw.models.create_model("convpool_cnn", unit="crelu", filters="half", as_printed=True)
    count = sum(value.numel() for value in model.parameters())
    assert count == layer_tables.parameters(layer_tables.S2_HALF) == 519_850
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 10)
    with pytest.raises(ArgumentError, match="as_printed is about half"):
        gw.models.create_model("convpool_cnn", unit="crelu", as_printed=True)


def test_networks_of_table_4_have_the_printed_parameters_and_maps():
    """Table 5 prints the parameters of four of them in millions, to one decimal."""
    for name, printed in (
        ("baseline", 9.4),
        ("CReLU (all)", 4.7),
        ("CReLU (conv1,4,7)", 8.6),
        ("CReLU (conv1-4)", 10.1),
    ):
        network = table4.ALL_CNN[name]
        with torch.device("meta"):
            model = gw.models.create_model(network.model, **network.options)
        count = sum(value.numel() for value in model.parameters())
        assert abs(count / 1e6 - printed) < 0.1, name
    with torch.device("meta"):
        *layers, _ = gw.models.create_model("all_cnn").children()
        maps = torch.nn.Sequential(*layers)(torch.empty(1, 3, 224, 224))
    assert maps.shape[-2:] == (6, 6)
    assert set(table4.LARGE_CNN) == set(table4.ALL_CNN) == set(published.TABLE4)


def test_table_1_has_dropout_at_full_scale_alone():
    scales = table1.EXPERIMENT.scales
    trainings = table1.EXPERIMENT.trainings
    assert trainings is not None
    for scale, dropout in (("full", True), ("desk", False)):
        runs = trainings(scales[scale], (0,))
        assert {config.model_options.get("dropout") for (config, *_) in runs.values()} == {dropout}
    model = gw.models.create_model("convpool_cnn", dropout=True)
    drops = [module.p for module in model.modules() if isinstance(module, torch.nn.Dropout)]
    assert drops == [0.2, 0.5, 0.5] and isinstance(model[0], torch.nn.Dropout)


@for_each("model", ["mobilenet_v2", "shufflenet_v2"])
def test_stand_ins_for_imagenet_have_maps_of_more_than_one_position(model: str):
    for small, side in ((False, 1), (True, 4)):
        net = gw.models.create_model(model, width=0.5, classes=10, small_images=small).eval()
        maps = net.get_submodule("features")(torch.zeros(1, 3, 32, 32))
        assert maps.shape[-2:] == (side, side)


def test_figure_2_judges_iieu_against_every_other_activation():
    settings = figure2.EXPERIMENT.scales["desk"]
    runs = figure2.configurations(settings, (0,))
    assert len(runs) == 2 * len(figure2.NAMED) - 1
    values = {}
    for name in runs:
        better = "IIEU" in name
        values[name] = [0.5 + 0.1 * better + 0.001 * better * seed for seed in range(8)]
    claim = figure2._claim(settings, "claim", values, lower=False)
    assert claim.verdict.value == "supported" and len(claim.compared) == 3 * 6
    values["ShuffleNetV2, SMU"] = [0.9, 0.91, 0.92, 0.9, 0.91, 0.92, 0.9, 0.91]
    claim = figure2._claim(settings, "claim", values, lower=False)
    assert claim.verdict.value == "contradicted"


RATES = (0.125, 0.25, 0.5, 1.0, 2.0)
STEPS = (-4, -2, 0, 2, 4)


def curves(units, best: float = 0.8) -> dict:
    """Accuracies of five seeds that fall with the square of the distance from the middle rate."""
    found = {}
    for place, unit in enumerate(units):
        found[unit] = {}
        for step, rate in enumerate(RATES):
            noise = [0.003 * math.sin(7 * place + 3 * step + 5 * seed) for seed in range(5)]
            found[unit][rate] = [best - 0.01 * (step - 2) ** 2 + one for one in noise]
    return found


def shifted(by_rate: dict, by: float) -> dict:
    return {rate: [one + by for one in values] for rate, values in by_rate.items()}


def study_of(values: dict) -> CheckedStudy:
    """A comparison with these values by unit and rate; None for a run that diverged."""
    rates = list(next(iter(values.values())))
    seeds = len(next(iter(values.values()))[rates[0]])
    steps = STEPS if len(rates) > 1 else (0,)
    header = {
        "metric": {"name": "accuracy", "images": 10_000},
        "models": ["net"],
        "baseline": next(iter(values)),
        "units": [{"label": unit} for unit in values],
        "rates": {"center": rates[len(rates) // 2], "ratio": 2.0, "count": len(rates)},
        "seeds": seeds,
        "chance": 0.1,
    }
    records = []
    for unit, by_rate in values.items():
        for step, (rate, numbers) in zip(steps, by_rate.items(), strict=True):
            for seed, value in enumerate(numbers):
                status = "diverged" if value is None else "done"
                place = {"model": "net", "unit": unit, "step": step, "rate": rate, "seed": seed}
                records.append({**place, "status": status, "value": value})
    return CheckedStudy(header, records)


def over_rates(values: dict, better: list[str], others: list[str]) -> Claim:
    return judge_over_rates("better", study_of(values), better, others)


def test_claims_of_the_unit_tables_are_judged_on_the_named_units():
    units = ["original", *(unit.get("label") for unit in beta_forms.DESK.units)]
    test = curves(units)
    assert beta_forms.claims(study_of(test))[0].verdict.value == "undecided"
    for name in (beta_forms.ABS, beta_forms.LEAKY):
        test[name] = shifted(test[name], 0.05)
    (claim,) = beta_forms.claims(study_of(test))
    assert claim.verdict.value == "supported" and len(claim.compared) == 2
    test = curves(["original", cifar10.CRELU, *cifar10.EQUAL])
    test["original"] = shifted(test["original"], 0.05)
    relu, crelu = cifar10.claims(study_of(test))
    assert relu.verdict.value == "contradicted" and crelu.verdict.value == "undecided"
    assert len(relu.compared) == len(cifar10.EQUAL) == 3


def test_the_interval_of_a_claim_is_the_factorial_rules_with_one_comparison():
    test = curves(["original", *cifar10.EQUAL])
    test[cifar10.DYNAMIC] = shifted(test[cifar10.DYNAMIC], 0.004)
    claim = over_rates(test, [cifar10.DYNAMIC], ["original"])
    grid = grid_steps(5)
    heights = np.full((1, len(test), len(grid), 5), np.nan)
    for unit, name in enumerate(test):
        for step, rate in zip(STEPS, RATES, strict=True):
            heights[0, unit, list(grid).index(step)] = test[name][rate]
    runs = FactorialRuns.of(heights, 5, chance=0.1, floor=1e-4)
    found = judge_factorial(runs, factorial_progress(runs), comparisons=1)
    (one,) = claim.compared
    assert one.interval == (found.low[0, 0], found.high[0, 0]) and one.n == 5
    assert one.confidence == 0.95 and one.difference == found.difference[0, 0]


def test_a_contradiction_needs_the_level_of_all_pairs():
    test = curves(["ours", "theirs", "third"])
    test["ours"] = shifted(test["ours"], -0.004)
    alone = over_rates(test, ["ours"], ["theirs"])
    (one,) = alone.compared
    assert one.interval[1] < 0 and alone.verdict.value == "contradicted"
    many = {**test, **{f"other {n}": shifted(test["theirs"], -0.2) for n in range(40)}}
    names = [name for name in many if name != "ours"]
    together = over_rates(many, ["ours"], names)
    of_theirs = next(each for each in together.compared if each.name == "ours and theirs")
    assert of_theirs.interval[1] < 0 and together.verdict.value == "undecided"


def test_diverged_runs_count_as_a_guess_and_two_seeds_test_nothing():
    test = curves(["ours", "theirs"])
    test["ours"][2.0] = [None] * 5
    claim = over_rates(test, ["ours"], ["theirs"])
    assert claim.verdict.value == "undecided" and claim.compared[0].n == 5
    rows = {row.what: row.ours for row in rate_rows(study_of(test))}
    assert rows["test accuracy, ours, rate 2"] == pytest.approx(0.1)
    assert rows["test accuracy, ours"] == rows["test accuracy, ours, rate 0.5"]
    few = {name: {rate: v[:2] for rate, v in by.items()} for name, by in test.items()}
    assert over_rates(few, ["ours"], ["theirs"]).verdict.value == "not tested"


def test_a_single_rate_is_the_paired_interval():
    values = {"ours": {0.5: [0.6, 0.61, 0.63, 0.62]}, "theirs": {0.5: [0.5, 0.52, 0.51, 0.53]}}
    claim = over_rates(values, ["ours"], ["theirs"])
    paired = judge_better(values["ours"][0.5], values["theirs"][0.5])
    assert claim.verdict.value == paired.judgement.value == "supported"
    assert claim.compared[0].interval == pytest.approx(paired.evidence[0].interval)


@pytest.fixture(scope="module")
def study() -> ComparisonStudy:
    """The plan of psc/cifar10 at scale desk."""
    return cifar10.EXPERIMENT.comparison(cifar10.DESK, range(5))


@pytest.mark.data
@pytest.mark.slow
def test_psc_on_cifar_10_has_the_runs_of_units_cifar10(study: ComparisonStudy):
    """Equal keys: what the preset has trained is not trained again."""
    preset = read_comparison("units_cifar10")
    for unit in ("original", cifar10.CRELU, cifar10.DYNAMIC):
        for step in STEPS:
            place = (study.first.model.name, unit, step, 4)
            assert study.cell(*place).key == preset.cell(*place).key
    assert study.seeds == 5 and study.grid.rates == preset.grid.rates
    assert study.header()["baseline"] == "original" and len(study.units) - 1 == 4


@pytest.mark.data
@pytest.mark.slow
def test_runs_that_units_cifar10_has_made_are_not_made_again(tmp_path: Path):
    tiny = cifar10.EXPERIMENT.scales["tiny"]
    first = replace(
        cifar10.EXPERIMENT,
        name="first",
        scales={"tiny": replace(tiny, units=tiny.units[:2])},
        findings=lambda values: Findings([], [], [], ()),
    )
    first.run("tiny", 2, tmp_path)
    (tmp_path / "first" / "study.jsonl").rename(tmp_path / "made.jsonl")
    made = import_study(tmp_path / "made.jsonl")[1]
    reading = replace(cifar10.EXPERIMENT, scales={"tiny": replace(tiny, reads="made.jsonl")})
    reading.run("tiny", 2, tmp_path)
    records = import_study(tmp_path / "psc" / "cifar10" / "study.jsonl")[1]
    assert len(made) == 3 * 2 and len(records) == 5 * 2
    assert all(records[key] == record for key, record in made.items())


@pytest.mark.data
@pytest.mark.slow
def test_units_at_equal_parameters_have_them(study: ComparisonStudy):
    counts = {unit: study.first.variants[unit].parameters for unit in study.units}
    for name in (cifar10.CRELU, cifar10.DYNAMIC):
        assert abs(counts[name] / counts["original"] - 1) < 0.02
    assert 0.93 < counts[cifar10.LOW_RANK] / counts["original"] <= 1
    assert counts[cifar10.LEARNED] > 1.8 * counts["original"]


def test_runs_of_another_processor_or_none_are_refused(tmp_path: Path, monkeypatch):
    plan = SimpleNamespace(
        first=SimpleNamespace(model=SimpleNamespace(recipe=SimpleNamespace(precision="float32"))),
        device=torch.device("cpu"),
    )
    file = StudyFile(tmp_path / "unfinished")
    with pytest.raises(ArgumentError, match="gatewise compare units_cifar10"):
        take_runs_of(tmp_path, cifar10.DESK.reads, plan, file)
    machine = {"processor": describe_processor()}
    record = {"status": "done", "value": 0.8, "precision": "float32", "machine": machine}
    export_study(tmp_path / cifar10.DESK.reads, {}, {"a": record})
    take_runs_of(tmp_path, cifar10.DESK.reads, plan, file)
    assert file.records(all_plans=True)["a"]["value"] == 0.8
    export_study(tmp_path / cifar10.DESK.reads, {}, {"b": {**record, "precision": "bfloat16"}})
    with pytest.raises(ArgumentError, match="one kind of processor and one precision"):
        take_runs_of(tmp_path, cifar10.DESK.reads, plan, file)


def test_iieu_dc_of_the_desk_has_more_than_one_hidden_feature():
    table = experiments()["iieu/table1"].trainings(
        experiments()["iieu/table1"].scales["desk"], (0,)
    )
    assert list(table) == ["ReLU", "IIEU-B", "IIEU-DC"]
    model = build_model(table["IIEU-DC"][0], classes=100, shape=(3, 32, 32))
    couplers = [module for module in model.modules() if isinstance(module, Coupler)]
    assert min(module.reduce.weight.shape[0] for module in couplers) == 4
    (lr,) = {configs[0].recipe.optimiser.lr for configs in table.values()}
    assert lr == 0.1 and len(experiments()["iieu/table1"].seed_numbers(None, "desk")) == 6


def test_the_control_of_iieu_has_relu_with_the_pool_where_iieu_has_it():
    orders = {}
    units = [("relu", {}), *((unit["label"], unit["model"]) for unit in cifar100.DESK.units)]
    for name, options in units:
        model = gw.models.create_model("fast_cifar", widths=[16, 64, 64], **options)
        orders[name] = [part for part, _ in model.named_children()]
    assert orders[cifar100.BEHIND] == orders[cifar100.IIEU] != orders["relu"]
