"""The monitor measures what gw.gates measures, changes nothing, and keeps to its budget."""

import copy
import csv
import json

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn import functional as F
from zoo import declare_missing_torchvision_operators

import gatewise as gw
from gatewise.analysis.monitoring import gate_monitor
from gatewise.errors import ArgumentError, MissingExtraError, NotApplicableError


class Network(nn.Module):
    """Functional, in-place and module activations, with batch norm and dropout."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.GELU()
        self.hidden = nn.Linear(8, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, x, *, scale=1.0):
        h = self.act(self.norm(self.conv(x))).mean((2, 3)) * scale
        return self.last(F.dropout(F.relu_(self.hidden(h)), 0.2, self.training))


class Untraceable(Network):
    """Calls its activation twice, and refuses to run under torch's tracers."""

    def forward(self, x):
        if get_proxy_mode() is not None or torch.compiler.is_compiling():
            raise RuntimeError("only for plain calls")
        h = self.act(self.norm(self.conv(x)))
        return super().forward(x + 0 * h.mean())


def images(count=8, seed=0):
    return torch.randn(count, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


def network(kind=Network):
    torch.manual_seed(0)
    model = kind()
    with torch.no_grad():
        model.hidden.bias[:3] = -50.0  # dead
        model.hidden.bias[5] = 50.0  # always on
        model.last.weight.mul_(2)
    return model


def train(model, steps, monitor=None):
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(steps):
        model(images(seed=step)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if monitor is not None:
            monitor.step()
    return model.state_dict()


def test_the_monitor_counts_what_gates_counts():
    model = network()
    x = images(16)
    record = gw.GateMonitor(model, x).measure()
    expected = gw.gates(model, x).sites
    assert [site.name for site in record.sites] == [site.name for site in expected]
    for site, other in zip(record.sites, expected, strict=True):
        torch.testing.assert_close(site.on_rate, other.on_rate)
        assert site.dead == other.dead
        assert site.always_on == other.always_on
        if other.saturated is not None:
            assert site.saturated == tuple(other.saturated.nonzero().flatten().tolist())
    relu = record.sites[1]
    assert relu.saturated is None
    assert {0, 1, 2} <= set(relu.dead)
    assert 5 in relu.always_on


def test_dormant_units_are_those_with_a_small_share_of_the_mean_output():
    model = network()
    with torch.no_grad():
        model.hidden.weight[7] *= 1e-4
        model.hidden.bias[7] = 1e-4
    kept = {}
    model.hidden.register_forward_hook(lambda module, args, out: kept.update(h=out.clone().relu()))
    record = gw.GateMonitor(model, images(16), dormant_below=0.02).measure()
    model.eval()(images(16))
    size = kept["h"].abs().mean(0)
    expected = (size <= 0.02 * size.mean()).nonzero().flatten().tolist()
    assert list(record.sites[1].dormant) == expected
    assert {0, 1, 2, 7} <= set(expected)


def test_training_is_the_same_with_a_monitor_and_without():
    plain = train(network(), 4)
    model = network()
    with gw.GateMonitor(model, images(), every=1, budget=None) as monitor:
        watched = train(model, 4, monitor)
    assert len(monitor.records) == 4
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


@pytest.mark.parametrize("kind", [Network, Untraceable])
def test_a_model_is_left_as_it_was(kind):
    model = network(kind)
    model(images()).sum().backward()
    before = copy.deepcopy(model)
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    state = torch.get_rng_state()
    monitor = gw.GateMonitor(model, images(4))
    monitor.measure()
    assert torch.equal(state, torch.get_rng_state())
    for old, new in zip(before.modules(), model.modules(), strict=True):
        assert old.training == new.training
        assert not new._forward_hooks
        assert not new._forward_pre_hooks
    for old, new in zip(gradients, model.parameters(), strict=True):
        assert torch.equal(old, new.grad)
    assert all(map(torch.equal, before.buffers(), model.buffers()))


def test_without_a_graph_activation_modules_are_measured_and_the_monitor_says_so():
    model = network(Untraceable)
    monitor = gw.GateMonitor(model, images(16))
    assert monitor.reading == "modules"
    assert "only activation modules" in monitor.notes[0]
    sites = monitor.measure().sites
    assert [site.name for site in sites] == ["act", "act@1"]  # relu_ is a function
    expected = gw.gates(network(), images(16)).sites[0]
    torch.testing.assert_close(sites[0].on_rate, expected.on_rate)
    assert gw.GateMonitor(network(), images()).reading == "graph"


def test_an_unreadable_model_without_activation_modules_is_refused():
    model = network(Untraceable)
    model.act = nn.Identity()
    with pytest.raises(NotApplicableError, match="no activation modules"):
        gw.GateMonitor(model, images())


def test_the_probe_is_taken_from_the_first_call():
    model = network()
    monitor = gw.GateMonitor(model, every=1, inputs=5, budget=None)
    with pytest.raises(ArgumentError, match="was not called yet"):
        monitor.measure()
    assert monitor.step() is None
    model(images(8, seed=3), scale=1.0)
    assert not model._forward_pre_hooks
    record = monitor.step()
    expected = gw.gates(model, images(8, seed=3)[:5]).sites
    for site, other in zip(record.sites, expected, strict=True):
        torch.testing.assert_close(site.on_rate, other.on_rate)


def test_closing_removes_the_hook_of_a_model_that_was_never_called():
    model = network()
    with gw.GateMonitor(model) as monitor:
        assert len(model._forward_pre_hooks) == 1
    assert not model._forward_pre_hooks
    with pytest.raises(ArgumentError, match="closed"):
        monitor.step()


def test_records_are_made_every_few_steps():
    model = network()
    monitor = gw.GateMonitor(model, images(), every=3, budget=None)
    train(model, 7, monitor)
    assert [record.step for record in monitor.records] == [3, 6]
    monitor.step(9)
    monitor.step(9)  # gradient accumulation: the same step again
    assert [record.step for record in monitor.records] == [3, 6, 9]


def test_records_beyond_the_budget_are_left_out(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(gate_monitor.time, "perf_counter", lambda: clock[0])
    monitor = gw.GateMonitor(network(), images(), every=1, budget=0.1)
    inner = monitor._probe.measure

    def measure():
        clock[0] += 1.0  # a record takes one second
        return inner()

    monkeypatch.setattr(monitor._probe, "measure", measure)
    for _ in range(60):
        clock[0] += 1.0  # and so does a step
        monitor.step()
    assert len(monitor.records) == 6
    assert monitor.skipped == 54
    assert monitor.share <= 0.1
    assert "54 records left out: one takes 1 s, and the budget is 10 % of the time" in repr(monitor)
    monitor.close()
    assert monitor.records[-1].step == 60  # the last step is recorded beyond the budget


def test_the_last_step_is_recorded_when_training_ends_but_not_when_it_fails():
    model = network()
    with gw.GateMonitor(model, images(), every=4, budget=None) as monitor:
        train(model, 6, monitor)
    assert [record.step for record in monitor.records] == [4, 6]
    assert "left out" not in repr(monitor)
    with gw.GateMonitor(model, images(), every=3, budget=None) as monitor:
        train(model, 3, monitor)
    assert [record.step for record in monitor.records] == [3]
    with (
        pytest.raises(ZeroDivisionError),
        gw.GateMonitor(model, images(), every=4, budget=None) as monitor,
    ):
        train(model, 2, monitor)
        raise ZeroDivisionError
    assert monitor.records == []


def test_a_network_that_diverged_gives_an_empty_record_and_training_goes_on():
    model = network()
    monitor = gw.GateMonitor(model, images())
    with torch.no_grad():
        model.conv.weight.fill_(float("nan"))
    record = monitor.measure()
    assert record.sites == ()
    assert "NaN or infinite" in record.problem
    assert "not measured" in repr(record)


def test_records_go_to_files_and_functions(tmp_path):
    model = network()
    seen = []
    to = [tmp_path / "gates.jsonl", str(tmp_path / "gates.csv"), seen.append]
    with gw.GateMonitor(model, images(), every=2, to=to, budget=None) as monitor:
        train(model, 4, monitor)
    assert seen == monitor.records
    lines = (tmp_path / "gates.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [one.to_dict() for one in seen]
    with (tmp_path / "gates.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(int(row["step"]), row["site"]) for row in rows] == [
        (record.step, site.name) for record in seen for site in record.sites
    ]
    assert int(rows[1]["dead"]) == len(seen[0].sites[1].dead)
    assert monitor.plot().get_ylabel() == "share of dead units"


def test_records_go_to_tensorboard(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    model = network()
    with gw.GateMonitor(model, images(), every=1, to=tmp_path / "runs", budget=None) as monitor:
        train(model, 2, monitor)
    events = accumulator.EventAccumulator(str(tmp_path / "runs")).Reload()
    tags = events.Tags()["scalars"]  # TensorBoard replaces some letters
    dead = events.Scalars(next(tag for tag in tags if "relu" in tag and tag.endswith("dead")))
    relu = [record.sites[1] for record in monitor.records]
    assert [event.step for event in dead] == [1, 2]
    assert [event.value for event in dead] == pytest.approx([len(s.dead) / 16 for s in relu])


def test_a_writer_of_the_user_stays_open():
    class Writer:
        def __init__(self):
            self.values = {}

        def add_scalar(self, tag, value, step):
            self.values[tag, step] = value

        def close(self):
            raise AssertionError("closed")

    writer = Writer()
    with gw.GateMonitor(network(), images(), to=writer) as monitor:
        record = monitor.measure()
    assert writer.values == {(tag, 0): value for tag, value in record.scalars().items()}


def test_bad_arguments_are_named(tmp_path, monkeypatch):
    model = network()
    wrong = {
        "every": 0,
        "inputs": 1.5,
        "budget": 2.0,
        "dormant_below": 0,
        "to": tmp_path / "gates.txt",
    }
    for name, value in wrong.items():
        with pytest.raises(ArgumentError, match=f"GateMonitor: {name}"):
            gw.GateMonitor(model, images(), **{name: value})
    with pytest.raises(ArgumentError, match="must be a module"):
        gw.GateMonitor(images())
    (tmp_path / "old.csv").write_text("")
    with pytest.raises(ArgumentError, match="exists"):
        gw.GateMonitor(model, images(), to=tmp_path / "old.csv")
    with pytest.raises(NotApplicableError, match="no activation modules"):
        gw.GateMonitor(nn.Linear(3, 2), torch.randn(2, 3))
    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard.writer", None)
    with pytest.raises(MissingExtraError, match="tensorboard"):
        gw.GateMonitor(model, images(), to=tmp_path / "runs")


@pytest.mark.slow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_lightning_trainer_steps_the_monitor(accumulate, tmp_path):
    declare_missing_torchvision_operators()
    lightning = pytest.importorskip("lightning.pytorch")

    class Task(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def training_step(self, batch, number):
            return self.network(batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    task = Task()
    monitor = gw.GateMonitor(task.network, every=2, budget=None)
    trainer = lightning.Trainer(
        max_epochs=1,
        accumulate_grad_batches=accumulate,
        callbacks=[monitor.lightning_callback()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
        accelerator="cpu",
    )
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images(32)), batch_size=4)
    trainer.fit(task, loader)
    assert [record.step for record in monitor.records] == list(range(2, 8 // accumulate + 1, 2))
    with pytest.raises(ArgumentError, match="closed"):
        monitor.measure()


@pytest.mark.slow
@pytest.mark.networks
def test_a_hugging_face_trainer_steps_the_monitor(tmp_path):
    declare_missing_torchvision_operators()
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    model = LlamaForCausalLM(config)
    tokens = torch.randint(50, (16, 6))
    data = [{"input_ids": row, "labels": row} for row in tokens]
    monitor = gw.GateMonitor(model, every=2, budget=None)
    arguments = TrainingArguments(
        output_dir=str(tmp_path),
        per_device_train_batch_size=4,
        max_steps=4,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=data,
        callbacks=[monitor.trainer_callback()],
    )
    trainer.train()
    assert [record.step for record in monitor.records] == [2, 4]
    assert monitor.reading == "graph"
    assert [site.channels for site in monitor.records[0].sites] == [24, 24]
