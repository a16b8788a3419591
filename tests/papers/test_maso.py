"""Paper 001's Table 2: which runs it is made of, and when its claims hold."""

import pytest

from gatewise.papers import experiments
from gatewise.papers.maso import published, table2


def test_the_penalty_is_the_only_difference_of_a_pair():
    sizes = experiments()["maso/table2"].scales["full"]
    training = sizes.trainings["CIFAR-10"]
    plain, ortho = (
        training.config("large_cnn", 0, changes=c) for c in ((), ("orthogonality.weight = 1.0",))
    )
    assert ortho.recipe.orthogonality.weight == 1 and plain.recipe.orthogonality.weight == 0
    assert ortho.recipe.orthogonality.pieces == "relu"
    assert (
        ortho.recipe.model_copy(update={"orthogonality": plain.recipe.orthogonality})
        == plain.recipe
    )


def test_every_printed_accuracy_has_its_row_and_no_other_scale_has_it():
    sizes = experiments()["maso/table2"].scales["full"]
    row = table2._row(sizes, "CIFAR-100 ortho, rate 0.0005", [0.5])
    assert row.published == pytest.approx(0.463)
    assert table2._row(sizes, table2._exact(sizes), [0.5]).published == pytest.approx(0.612)
    desk = experiments()["maso/table2"].scales["desk"]
    assert table2._row(desk, "CIFAR-100 ortho, rate 0.0005", [0.5]).published is None


def test_the_penalty_must_help_at_every_rate():
    sizes = experiments()["maso/table2"].scales["desk"]
    test = {
        table2.name_of(data, kind, rate): [0.5 + 0.1 * (kind == "ortho")] * 3
        for data in sizes.trainings
        for kind in ("baseline", "ortho")
        for rate in published.RATES
    } | {table2._exact(sizes): [0.7] * 3}
    assert [claim.verdict.value for claim in table2.claims(sizes, test)] == ["supported"] * 3
    worse = test | {
        "CIFAR-10 ortho, rate 0.0001": [0.4, 0.4, 0.4],
        table2._exact(sizes): [0.5, 0.6, 0.7],
    }
    assert [claim.verdict.value for claim in table2.claims(sizes, worse)] == [
        "contradicted",
        "supported",
        "undecided",
    ]
