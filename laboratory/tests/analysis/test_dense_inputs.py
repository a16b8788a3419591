"""Sparse and nested tensors get one error that says how to make them dense."""

import pytest
import torch
from gatewise_papers import deep_gated
from loops import for_each
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError

ROWS = [torch.randn(2, 4), torch.randn(3, 4)]
INPUTS = {
    "sparse": (lambda: torch.eye(4).to_sparse(), "to_dense"),
    "csr": (lambda: torch.eye(4).to_sparse_csr(), "to_dense"),
    "nested": (lambda: torch.nested.nested_tensor(ROWS), "to_padded_tensor"),
    "jagged": (lambda: torch.nested.nested_tensor(ROWS, layout=torch.jagged), "to_padded_tensor"),
}
CALLS = {
    "gates": lambda model, x: gw.gates(model, x),
    "gates of batches": lambda model, x: gw.gates(model, [torch.eye(4), x]),
    "gate_overlap": lambda model, x: gw.analysis.gate_overlap(model, x),
    "gate_flips": lambda model, x: gw.analysis.gate_flips(model, model, x),
    "invariance": lambda model, x: gw.analysis.invariance(model, x),
    "ntk": lambda model, x: gw.analysis.ntk(model, x),
    "affine_map": lambda model, x: gw.analysis.affine_map(model, x),
    "path_kernel": lambda model, x: deep_gated.path_kernel(model, x),
    "cost": lambda model, x: gw.cost(model, x),
    "diagnose": lambda model, x: gw.diagnose(model, x, questions="all"),
    "GateMonitor": lambda model, x: gw.GateMonitor(model, x),
}


@pytest.mark.filterwarnings("ignore:.*prototype stage:UserWarning")
@pytest.mark.filterwarnings("ignore:.*beta state:UserWarning")
@for_each("kind", INPUTS)
@for_each("name", CALLS)
def test_a_tensor_that_is_not_dense_is_named_with_the_fix(name, kind):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    make, fix = INPUTS[kind]
    with pytest.raises(ArgumentError, match=r"dense tensor.*" + fix):
        CALLS[name](model, make())
