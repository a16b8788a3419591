"""What is measured on a network: mean outputs of ten crops, and scores in eval mode."""

import pytest
import torch
from small_runs import EXAMPLES
from test_loop import PLAIN, perceptron

from gatewise.data import DataSet, Split, load
from gatewise.data.images import Augment
from gatewise.errors import ArgumentError
from gatewise.models import create_model
from gatewise.train.config import Loss
from gatewise.train.loop import evaluate, outputs, probe


class Corners(torch.nn.Module):
    """Says of an image its first pixel and its sum."""

    def forward(self, x):
        return torch.stack([x[:, 0, 0, 0], x.sum((1, 2, 3))], 1)


def test_ten_crops_are_averaged():
    torch.manual_seed(0)
    images = torch.rand(3, 1, 5, 5)
    found = outputs(
        Corners(), Split(images, torch.zeros(3, dtype=torch.int64)), augment=Augment(), crops=3
    )
    want = []
    for image in images[:, 0].double():
        crops = [image[t : t + 3, s : s + 3] for t, s in [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)]]
        crops += [crop.flip(1) for crop in crops]
        want.append([sum(c[0, 0] for c in crops) / 10, sum(c.sum() for c in crops) / 10])
    torch.testing.assert_close(
        found.double(), torch.tensor(want, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


def test_scores_do_not_depend_on_the_mode_and_leave_it_as_it_was():
    data = load("digits", train=EXAMPLES)
    net = create_model("small_cnn", widths=(4, 4))
    net.train()
    net.conv1.norm.eval()
    score = evaluate(net, data.test, loss=Loss(), augment=Augment())
    assert net.training and not net.conv1.norm.training and net.conv2.norm.training
    assert score == evaluate(
        net.eval(), data.test, loss=Loss(), augment=Augment()
    ) and score.examples == len(data.test)


def test_a_vector_is_asked_of_a_network_for_each_example():
    part = Split(torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64))
    data = DataSet("digits", part, part, 10, (1, 2, 2), (0.0,), (1.0,), "none")
    with pytest.raises(ArgumentError, match="a vector for each example"):
        probe(perceptron(PLAIN), torch.nn.Identity(), classes=10, shape=data.shape)
