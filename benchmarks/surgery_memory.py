"""Peak memory and forward passes of a swap of activations in large 16-bit language models.

For each size and way a fresh process builds a decoder with random bfloat16 weights. It swaps the
SiLU by ReLU, in place or on a copy, or makes the decoder sparse in place. Reported is the peak of
its resident memory minus the resident memory before the model was built, in bytes of the weights.
Run it with

    python benchmarks/surgery_memory.py --output memory.csv
"""

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

# Name: width, layers, size of the vocabulary. Parameters are counted on the model.
SIZES = {"0.3B": (1024, 20, 32000), "1.1B": (2048, 22, 32000), "small": (64, 2, 100)}
# What a swap may take, in bytes of the weights, and in forward passes.
MOST_MEMORY = {"inplace": 1.5, "copy": 2.5, "sparsify": 2.0}
MOST_PASSES = 8
COLUMNS = ("model", "way", "parameters", "weight_bytes", "peak_bytes", "ratio", "passes", "seconds")


class Block(nn.Module):
    """Attention and a gated feed-forward network, as in Llama."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // 64)
        hidden = width * 8 // 3 // 64 * 64 or width
        self.norm1 = nn.RMSNorm(width)
        self.norm2 = nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, width // 2, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        h = self.norm1(x)
        query = self.query(h).view(batch, length, self.heads, -1).transpose(1, 2)
        key, value = self.key_value(h).repeat(1, 1, 4).chunk(2, -1)
        key = key.view(batch, length, self.heads, -1).transpose(1, 2)
        value = value.view(batch, length, self.heads, -1).transpose(1, 2)
        h = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(h.transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(self.act(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """A language model without a cache. ``passes`` counts the calls of all decoders."""

    passes = 0

    def __init__(self, width: int, layers: int, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        Decoder.passes += 1
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build(name: str) -> Decoder:
    """The model with random bfloat16 weights, which are never in memory in another type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        return Decoder(*SIZES[name]).eval()
    finally:
        torch.set_default_dtype(before)


def measure(name: str, way: str) -> dict[str, object]:
    """Swap the activations of a model in this process."""
    resident = _resident()
    model = build(name)
    bytes_of_weights = sum(value.nbytes for value in model.parameters())
    started = time.perf_counter()
    if way == "sparsify":
        ids = torch.arange(64).reshape(4, 16)
        found = gw.sparsify(model, ids, levels=(), per_layer=False, repeats=1, inplace=True)
        print(found, file=sys.stderr)
    else:
        changed = gw.swap(model, "relu", torch.arange(16)[None], inplace=way == "inplace")
        if not gw.receipt(changed).proved:
            raise SystemExit(str(gw.receipt(changed)))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident
    return {
        "model": name,
        "way": way,
        "parameters": sum(value.numel() for value in model.parameters()),
        "weight_bytes": bytes_of_weights,
        "peak_bytes": peak,
        "ratio": round(peak / bytes_of_weights, 3),
        "passes": Decoder.passes,
        "seconds": round(seconds, 1),
    }


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Measure all models, each in a process of its own, and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", default=["0.3B", "1.1B"], choices=list(SIZES))
    parser.add_argument("--ways", nargs="+", default=list(MOST_MEMORY), choices=list(MOST_MEMORY))
    parser.add_argument("--output", type=Path, help="the CSV file to write")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.one)))
        return
    rows = []
    for name in options.models:
        for way in options.ways:
            command = [sys.executable, __file__, "--one", name, way]
            result = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  this file
            rows.append(json.loads(result.stdout.splitlines()[-1]))
            print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.output:
        with options.output.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    over = []
    for row in rows:
        many = row["way"] != "sparsify" and row["passes"] > MOST_PASSES
        if many or row["ratio"] > MOST_MEMORY[row["way"]]:
            over.append(row)
    if over:
        raise SystemExit(f"over the bound: {over}")


if __name__ == "__main__":
    main()
