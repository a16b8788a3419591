"""Paper 000: its bound on fitting |x|, and its rule for ranks."""

from fractions import Fraction
from pathlib import Path

import pytest
from gatewise_papers.psc.experiments import error, least_squares, lower_bound, train_fit
from loops import for_each
from scipy.integrate import quad

from gatewise.studies import CellCall
from gatewise.train import StopSignal


@for_each("fit", [(0.4, 0.0, 0.4), (1.0, -1.0, 0.0), (0.3, 0.7, -0.2), (-1.0, 2.0, 0.5)])
def test_the_error_is_the_integral(fit):
    w, v, b = fit
    whole, _ = quad(lambda x: (abs(x) - w * max(x, 0) - v * min(x, 0) - b) ** 2, -1, 1, points=[0])
    assert error(*fit) == pytest.approx(whole, abs=1e-12)


def test_two_fifths_lose_two_fifteenths_exactly_and_every_step_away_loses_more():
    best = Fraction(2, 5)
    assert error(best, Fraction(0), best) == Fraction(2, 15)
    for dw, db in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)):
        assert error(best + Fraction(dw, 1000), Fraction(0), best + Fraction(db, 1000)) > Fraction(
            2, 15
        )


def test_least_squares_find_it_and_both_phases_fit():
    assert least_squares(phases=False) == pytest.approx((0.4, 0.0, 0.4), abs=1e-12)
    assert least_squares(phases=True) == pytest.approx((1.0, -1.0, 0.0), abs=1e-12)


@pytest.mark.parametrize(("phases", "fit"), [(False, (0.4, 0.0, 0.4)), (True, (1.0, -1.0, 0.0))])
def test_trained_networks_come_to_the_best_weights(phases: bool, fit, tmp_path: Path):
    """In the scale of x, not of what the network sees."""
    settings = {"seed": 1, "phases": phases, "epochs": 20}
    cell = CellCall(settings, {"name": "fit"}, tmp_path, StopSignal())
    assert train_fit(cell) == pytest.approx(fit, abs=0.02)


def test_the_rules_rank_is_the_largest_with_no_more_parameters():
    for inputs, outputs, kernel in lower_bound.PscLowerBoundSettings().layers:
        found = lower_bound._rank(inputs, outputs, kernel)
        assert found["ours"] <= 1 < found["above"]
        assert found["ours"] == pytest.approx(found["rule"], abs=1e-15)


def test_the_rule_is_an_identity_up_to_the_rounding_of_the_rank():
    ranks = lower_bound.count_ranks(
        CellCall({"layers": lower_bound.PscLowerBoundSettings().layers}, {}, Path(), StopSignal())
    )
    equal, _ = lower_bound._rank_claims(ranks)
    assert equal.verdict.value == "supported" and "28.80" in equal.evidence
    ranks[0]["above"] = 1.0  # a larger rank would still be no larger
    assert lower_bound._rank_claims(ranks)[0].verdict.value == "contradicted"
