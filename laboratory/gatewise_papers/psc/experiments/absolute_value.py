"""How well one weight, or one weight for each sign, fits |x| on [-1, 1]."""

from fractions import Fraction
from typing import TypeVar

import numpy as np
from torch import nn

from gatewise.data import load
from gatewise.files import read_tensors
from gatewise.layers import PSLinear
from gatewise.studies import CellCall
from gatewise.train import WEIGHTS, find_recipe, initialise, run_config

Number = TypeVar("Number", float, Fraction)
Fit = tuple[float, float, float]  # w on positive inputs, v on negative ones, b


def error(w: Number, v: Number, b: Number) -> Number:
    r"""Return the integral over [-1, 1] of :math:`(|x| - w x^+ - v x^- - b)^2`.

    Here :math:`x^- = \min(x, 0)`. On either half the residual is a line, a u - b with u from 0 to
    1, whose square integrates to a^2/3 - ab + b^2.
    """
    return _half(1 - w, b) + _half(1 + v, b)


def _half(a: Number, b: Number) -> Number:
    """Return the integral over one half."""
    return a * a / 3 - a * b + b * b


def least_squares(*, phases: bool) -> Fit:
    """Return the best fit by least squares at Gauss points.

    The points are exact for these polynomials on either half.

    Args:
        phases: whether negative inputs have a weight of their own.
    """
    nodes, weights = np.polynomial.legendre.leggauss(4)
    x = np.concatenate([(nodes - 1) / 2, (nodes + 1) / 2])
    root = np.sqrt(np.tile(weights / 2, 2))
    columns = [x.clip(min=0)]
    if phases:
        columns.append(x.clip(max=0))
    columns.append(np.ones_like(x))
    matrix = np.stack(columns, 1) * root[:, None]
    solution = np.linalg.lstsq(matrix, abs(x) * root, rcond=None)[0].tolist()
    return solution[0], solution[1] if phases else 0.0, solution[-1]


def train_fit(cell: CellCall) -> Fit:
    """Train a network of one output on a thousand points, and return its weights.

    The settings of the cell are ``seed``, ``phases`` and ``epochs``.
    """
    seed = cell.settings["seed"]
    epochs = cell.settings["epochs"]
    changes = [f"epochs = {epochs}", "optimiser.lr = 0.1", 'loss.name = "mse"']
    recipe = find_recipe("adam", changes=changes)
    config = run_config(
        model="mlp",
        data="abs_line",
        recipe=recipe,
        seed=seed,
        evaluate_every=epochs,
    )
    layers = [PSLinear(1, 1)] if cell.settings["phases"] else [nn.ReLU(), nn.Linear(1, 1)]
    network = nn.Sequential(nn.Flatten(), *layers)
    initialise(network, seed)
    data = load("abs_line")
    cell.train(config, data=data, network=lambda: network)
    # A cell that is resumed may find its training finished, so the weights are read from the file.
    network.load_state_dict(read_tensors(cell.folder / "run" / WEIGHTS)[0])
    *slopes, bias = (parameter.item() for parameter in network[-1].parameters())
    # Networks read inputs divided by their standard deviation; their mean is 0, so signs are kept.
    slopes = [slope / data.std[0] for slope in slopes]
    return slopes[0], slopes[1] if len(slopes) > 1 else 0.0, bias
