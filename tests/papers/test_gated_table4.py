"""Paper 004's Table 4: which networks it has, and when its claims hold."""

import gatewise as gw
from gatewise.papers import experiments
from gatewise.papers.deep_gated import table4
from gatewise.papers.deep_gated.shared import published as gated


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
    soft[table4.name_of(1, 0.1)] = [0.5, 0.505, 0.51]
    found = table4.claims(
        sizes, {"deep linear network": [0.3] * 3, "ReLU": [0.605, 0.612, 0.612], **soft}
    )
    assert [claim.verdict.value for claim in found] == ["supported"] * 3
    found = table4.claims(sizes, {"deep linear network": [0.55] * 3, "ReLU": [0.7] * 3, **soft})
    assert [claim.verdict.value for claim in found] == [
        "contradicted",
        "supported",
        "contradicted",
    ]


def test_the_gated_cnn_can_be_narrower():
    network = gw.create_model("deep_gated_cnn", scale=0.125)
    assert network.channels == (8, 8, 16, 16)
    assert [layer.weight.shape[0] for layer in network.weights] == [8, 8, 16, 16, 32, 32, 10]
