"""Paper 004's Table 4: which networks it has, and when its claims hold."""

from gatewise_papers.all_experiments import experiments
from gatewise_papers.deep_gated.experiments import table4
from gatewise_papers.deep_gated.experiments.shared import published as gated

import gatewise as gw


def test_every_soft_relu_of_table_4_is_in_it():
    full = experiments()["deep_gated/table4"].scales["full"]
    names = {table4.name_of(beta, eps) for beta in full.betas for eps in full.epsilons}
    assert names == {table4.name_of(*key) for key in gated.SOFT_RELU_TEST}
    assert table4._published("soft-ReLU beta=16, eps=0.1") == {"train": 0.99, "test": 0.72}
    assert table4._published("deep linear network") == {"train": 0.5042, "test": 0.3939}


def test_comparable_is_within_two_in_a_hundred():
    sizes = experiments()["deep_gated/table4"].scales["desk"]
    soft = {
        table4.name_of(beta, eps): [0.605, 0.61, 0.615]
        for beta in sizes.betas
        for eps in sizes.epsilons
    }
    soft[table4.name_of(1, 0.1)] = [0.5, 0.506, 0.51]
    found = table4.claims(
        sizes, {"deep linear network": [0.3, 0.31, 0.3], "ReLU": [0.605, 0.612, 0.612], **soft}
    )
    assert [claim.verdict.value for claim in found] == ["supported"] * 3
    found = table4.claims(
        sizes, {"deep linear network": [0.9, 0.901, 0.9], "ReLU": [0.7, 0.71, 0.7], **soft}
    )
    assert [claim.verdict.value for claim in found] == [
        "contradicted",
        "supported",
        "contradicted",
    ]


def test_the_gated_cnn_can_be_narrower():
    network = gw.models.create_model("deep_gated_cnn", scale=0.125)
    assert network.channels == (8, 8, 16, 16)
    assert [layer.weight.shape[0] for layer in network.weights] == [8, 8, 16, 16, 32, 32, 10]
