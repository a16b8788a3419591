"""How well one weight, or one for each phase, fits |x| on [-1, 1].

Exactly, by least squares, and by training.
"""

from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
from torch import nn

from gatewise.data import load
from gatewise.layers import PSLinear
from gatewise.train import AtEpochs, find_recipe, initialise, run_config, train

Number = TypeVar("Number", float, Fraction)
Fit = tuple[float, float, float]  # w on positive inputs, v on negative ones, b


def error(w: Number, v: Number, b: Number) -> Number:
    r"""The integral over [-1, 1] of :math:`(|x| - w x^+ - v x^- - b)^2`, with :math:`x^- = \min(x, 0)`.

    On either half the residual is a line, a u - b with u from 0 to 1, whose square integrates to a^2/3 - ab + b^2.
    """
    return _half(1 - w, b) + _half(1 + v, b)


def _half(a: Number, b: Number) -> Number:
    return a * a / 3 - a * b + b * b


def least_squares(*, phases: bool) -> Fit:
    """The best fit, by least squares at Gauss' points, which are exact for these polynomials on either half."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    x, root = np.concatenate([(nodes - 1) / 2, (nodes + 1) / 2]), np.sqrt(np.tile(weights / 2, 2))
    columns = [x.clip(min=0), *([x.clip(max=0)] if phases else []), np.ones_like(x)]
    found = np.linalg.lstsq(np.stack(columns, 1) * root[:, None], abs(x) * root, rcond=None)[
        0
    ].tolist()
    return (found[0], found[1] if phases else 0.0, found[-1])


def trained(seed: int, *, phases: bool, epochs: int) -> Fit:
    """A network of one output, trained on a thousand points."""
    recipe = find_recipe(
        "adam", changes=[f"epochs = {epochs}", "optimiser.lr = 0.1", 'loss.name = "mse"']
    )
    config = run_config(
        model="mlp", data="abs_line", recipe=recipe, seed=seed, evaluate_every=epochs
    )
    data = load("abs_line")
    layers = [PSLinear(1, 1)] if phases else [nn.ReLU(), nn.Linear(1, 1)]
    network = initialise(nn.Sequential(nn.Flatten(), *layers), seed)
    look = AtEpochs([epochs], lambda network: [float(each) for each in network[-1].parameters()])
    with TemporaryDirectory() as folder:
        if (
            train(config, Path(folder, "run"), data=data, network=lambda: network, watchers=[look])
            is None
        ):
            raise KeyboardInterrupt  # asked to stop
    *slopes, bias = look.answers[epochs]
    # Networks see inputs less their mean, which is 0 here, over their deviation: signs are kept.
    w, v = (slope / data.std[0] for slope in (*slopes, 0.0)[:2])
    return w, v, bias
