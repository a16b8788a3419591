"""Real trainers of Lightning and Hugging Face, recorded: one study, one table."""

from pathlib import Path

import pytest
import torch
from studies.own_networks import Net, digits, loaders
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from zoo import declare_missing_torchvision_operators

import gatewise as gw
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.studies import read_recorded
from gatewise.studies.recorders import Recorder, recorded_runs

declare_missing_torchvision_operators()  # both import torchvision where it is installed


def recorded(folder: Path, unit: str, seed: int, accuracy: float) -> None:
    recorder = Recorder(folder, unit=unit, seed=seed, baseline="relu")
    net = Net()
    recorder.start(net)
    recorder.epoch(1, {"test_accuracy": accuracy - 0.1, "test_loss": 1.0})
    recorder.epoch(2, {"test_accuracy": accuracy, "test_loss": 0.5})
    recorder.end(net)


def test_recorded_runs_are_compared_pair_by_pair(tmp_path: Path):
    for seed in range(6):
        recorded(tmp_path / "s", "relu", seed, 0.80 + seed / 100)
        recorded(tmp_path / "s", "gelu", seed, 0.83 + seed / 100)
    found = read_recorded(tmp_path / "s")
    assert found["gelu"].difference == pytest.approx(0.03)
    assert found["gelu"].verdict == "better"
    assert [line["epoch"] for line in recorded_runs(tmp_path / "s")[0]["curve"]] == [1, 2]
    assert "gelu" in gw.write_page(found, tmp_path / "page.html").read_text()


def test_finished_run_is_not_recorded_twice_and_an_unfinished_one_is(tmp_path: Path):
    recorded(tmp_path, "relu", 0, 0.8)
    with pytest.raises(ArgumentError, match="recorded already"):
        recorded(tmp_path, "relu", 0, 0.9)
    broken = Recorder(tmp_path, unit="gelu", seed=0)
    broken.start(Net())
    recorded(tmp_path, "gelu", 0, 0.7)
    assert len(recorded_runs(tmp_path)) == 2


def test_run_that_told_no_metric_or_failed_says_so(tmp_path: Path):
    silent, failing = (Recorder(tmp_path, unit=name, seed=0) for name in ("relu", "gelu"))
    silent.start(net := Net())
    silent.end(net)
    failing.start(net)
    failing.end(net, problem="ValueError: no")
    errors = [record["error"] for record in recorded_runs(tmp_path)]
    assert errors == ["ValueError: no", "no finite test_accuracy was recorded, only: nothing"]


def test_a_file_that_is_no_run_is_refused(tmp_path: Path):
    recorded(tmp_path, "relu", 0, 0.8)
    [path] = tmp_path.glob("*.run.json")
    for text in ("", "{", "[]", "{}"):
        path.write_text(text)
        with pytest.raises(DamagedFileError, match=r"recorded run|\.run\.json is damaged"):
            read_recorded(tmp_path)


@pytest.mark.parametrize(
    "wrong", [{"unit": ""}, {"seed": -1}, {"seed": "0"}, {"metric": "f1"}, {"backbone": 3}]
)
def test_wrong_labels_are_refused(tmp_path: Path, wrong: dict):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        Recorder(tmp_path, **{"unit": "relu", "seed": 0, **wrong})


@pytest.mark.slow
def test_lightning_trainer_is_recorded(tmp_path: Path):
    import lightning.pytorch as lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = Net()

        def training_step(self, batch, index):
            return F.cross_entropy(self.net(batch[0]), batch[1])

        def validation_step(self, batch, index):
            outputs = self.net(batch[0])
            self.log("val_loss", F.cross_entropy(outputs, batch[1]))
            self.log("val_acc", (outputs.argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-2)

    train, test = loaders(40)
    for unit in ("relu", "gelu"):
        callback = gw.studies.LightningRecorder(str(tmp_path / "s"), unit=unit, seed=0)
        trainer = lightning.Trainer(
            max_epochs=2,
            callbacks=[callback],
            logger=False,
            enable_checkpointing=False,
            accelerator="cpu",
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module := Module(), train, test)
    found = recorded_runs(tmp_path / "s")
    assert [record["status"] for record in found] == ["done"] * 2
    assert [line["epoch"] for line in found[0]["curve"]] == [1, 2]
    with torch.no_grad():
        right = sum(int((module.net(x).argmax(1) == y).sum()) for x, y in test)
    [last] = [record for record in found if record["unit"] == "gelu"]
    assert last["metrics"]["test_accuracy"] == pytest.approx(right / 40)


class Classifier(nn.Module):
    """What the Hugging Face Trainer takes: keywords in, a loss out."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, images, labels):
        outputs = self.net(images)
        return {"loss": F.cross_entropy(outputs, labels), "logits": outputs}


@pytest.mark.slow
def test_hugging_face_trainer_is_recorded(tmp_path: Path):
    from transformers import Trainer, TrainingArguments

    def collate(items):
        return {
            "images": torch.stack([x for x, _ in items]),
            "labels": torch.stack([y for _, y in items]),
        }

    def measure(found):
        return {"accuracy": float((found.predictions.argmax(1) == found.label_ids).mean())}

    train, test = digits(40)
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "hf"),
        num_train_epochs=2,
        eval_strategy="epoch",
        save_strategy="no",
        use_cpu=True,
        per_device_train_batch_size=20,
        report_to=[],
        disable_tqdm=True,
        label_names=["labels"],
        remove_unused_columns=False,
    )
    callback = gw.studies.TransformersRecorder(str(tmp_path / "s"), unit="relu", seed=1)
    Trainer(
        model=Classifier(),
        args=arguments,
        train_dataset=TensorDataset(*train),
        eval_dataset=TensorDataset(*test),
        data_collator=collate,
        compute_metrics=measure,
        callbacks=[callback],
    ).train()
    [record] = recorded_runs(tmp_path / "s")
    assert record["status"] == "done"
    assert [line["epoch"] for line in record["curve"]] == [1, 2]
    assert 0 <= record["metrics"]["test_accuracy"] <= 1


def test_what_cannot_be_recorded_is_refused_at_once(tmp_path: Path):
    recorder = Recorder(tmp_path, unit="relu", seed=0)
    with pytest.raises(ArgumentError, match="has not begun"):
        recorder.epoch(1, {"test_loss": 1.0})
    recorder.start(net := Net())
    with pytest.raises(ArgumentError, match="divide it by 100"):
        recorder.epoch(1, {"test_accuracy": 91.0})
    with pytest.raises(ArgumentError, match="x is not a number"):
        recorder.epoch(1, {"x": "abc"})
    recorder.epoch(1, {"test_accuracy": 0.9, "lr": float("nan")})
    recorder.end(net)
    [record] = recorded_runs(tmp_path)
    assert record["status"] == "done" and record["metrics"]["lr"] is None
    with pytest.raises(ArgumentError, match="another baseline"):
        Recorder(tmp_path, unit="gelu", seed=0, baseline="gelu").start(net)
