"""One row times a matrix without its small inputs, and a sparse language model at batch 1.

    python benchmarks/sparse_rows.py            # the product, against torch.mv
    python benchmarks/sparse_rows.py --model    # a small language model that is trained here first

Appends to ``benchmarks/results/sparse_rows.csv``. One thread. Both sides run in turns, each on the
same new inputs, and the ratio is that of the medians of processor time.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from kept import keep
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.sparsity import SparseLinear

SIZES = ((2048, 8192), (8192, 2048), (1024, 4096))  # inputs, outputs
SHARES = (0.5, 0.25, 0.1)  # of the inputs that are kept
REPEATS = 30
WIDTH, DEPTH, LENGTH, STEPS = 512, 2, 64, 50
TARGETS = (0.5, 0.7)


def in_turns(one: Callable[[Any], object], two: Callable[[Any], object], inputs: list[Any]) -> Any:
    """The median processor times of two functions of the same inputs."""
    seconds: tuple[list[float], list[float]] = ([], [])
    one(inputs[0]), two(inputs[0])
    for value in inputs:
        for call, times in zip((one, two), seconds, strict=True):
            start = time.thread_time()
            call(value)
            times.append(time.thread_time() - start)
    return tuple(map(statistics.median, seconds))


def row_with(inputs: int, share: float, dtype: torch.dtype) -> Tensor:
    """One row of which ``share`` of the numbers are not small."""
    x = torch.randn(1, inputs)
    order = x.abs().argsort(descending=True)[0, round(share * inputs) :]
    x[0, order] = 0
    return x.to(dtype)


def _dense(weight: Tensor, x: Tensor) -> Tensor:
    return torch.mv(weight, x[0])


@torch.no_grad()
def measure_product() -> None:
    """Compare the product with torch.mv."""
    for dtype in (torch.float32, torch.bfloat16):
        for inputs, outputs in SIZES:
            plain = nn.Linear(inputs, outputs, bias=False, dtype=dtype).requires_grad_(False)
            copy = nn.Linear(inputs, outputs, bias=False, dtype=dtype).requires_grad_(False)
            copy.load_state_dict(plain.state_dict())
            sparse = SparseLinear(copy, 0.0)
            sparse.store_by_inputs()
            for share in SHARES:
                rows = [row_with(inputs, share, dtype) for _ in range(REPEATS)]
                whole = partial(_dense, plain.weight)
                dense, skipping = in_turns(whole, sparse, rows)
                row = {
                    "what": "product",
                    "dtype": str(dtype).removeprefix("torch."),
                    "inputs": inputs,
                    "outputs": outputs,
                    "kept": share,
                    "dense_us": round(dense * 1e6, 1),
                    "sparse_us": round(skipping * 1e6, 1),
                    "ratio": round(skipping / dense, 3),
                }
                keep("sparse_rows", row)
                print(row, flush=True)


@torch.enable_grad()
def trained() -> tuple[nn.Module, list[tuple[Tensor, Tensor]]]:
    """A small language model after some steps on text, and test batches."""
    torch.manual_seed(0)
    data = gw.data.load("text", length=LENGTH)
    model = gw.models.create_model(
        "small_llama", unit="swiglu", width=WIDTH, depth=DEPTH, length=LENGTH
    )
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(STEPS):
        chosen = torch.randint(0, len(data.train), (8,))
        scores = model(data.train.images[chosen].long())
        loss = F.cross_entropy(scores.flatten(0, 1), data.train.labels[chosen].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    test = data.test.first(64)
    pairs = zip(test.images.long().split(8), test.labels.split(8), strict=True)
    return model.eval(), list(pairs)


@torch.no_grad()
def measure_model() -> None:
    """Compare a sparse language model with the dense one, one token at a time."""
    model, batches = trained()
    tokens = torch.cat([inputs for inputs, _ in batches]).flatten()[:: LENGTH // 2]
    singles = [token.reshape(1, 1) for token in tokens]
    for target in TARGETS:
        found = gw.sparsify(model, batches, target=target, levels=(), per_layer=False, repeats=1)
        dense, sparse = in_turns(model, found.model, singles)
        row = {
            "what": f"small_llama, width {WIDTH}, depth {DEPTH}, {STEPS} steps",
            "dtype": "float32",
            "kept": round(1 - found.sparsity, 4),
            "dense_us": round(dense * 1e6, 1),
            "sparse_us": round(sparse * 1e6, 1),
            "ratio": round(sparse / dense, 3),
            "sparsity": round(found.sparsity, 4),
            "loss_dense": round(found.before.loss or 0.0, 4),
            "loss_sparse": round(found.after.loss or 0.0, 4),
            "same_predictions": round(found.after.agreement or 0.0, 4),
        }
        keep("sparse_rows", row)
        print(row, flush=True)


def main() -> None:
    """Measure, print and append."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", action="store_true", help="the language model")
    torch.set_num_threads(1)
    if parser.parse_args().model:
        measure_model()
    else:
        measure_product()


if __name__ == "__main__":
    main()
