"""Rademacher complexities against all signs, and the printed bound against a counterexample."""

import itertools
import math

import pytest
import torch

import gatewise as gw
from gatewise.errors import ArgumentError


def by_hand(rows: list[list[float]]) -> tuple[float, float, float]:
    """The mean over all signs of the suprema over functions, and for CReLU over unit weights."""
    length = len(rows[0])
    base = relu = crelu = 0.0
    for signs in itertools.product((-1, 1), repeat=length):
        base += max(abs(sum(s * v for s, v in zip(signs, row, strict=True))) for row in rows)
        positive = [sum(s * max(v, 0) for s, v in zip(signs, row, strict=True)) for row in rows]
        negative = [sum(s * max(-v, 0) for s, v in zip(signs, row, strict=True)) for row in rows]
        relu += max(map(abs, positive))
        crelu += max(math.hypot(p, n) for p, n in zip(positive, negative, strict=True))
    return tuple(2 / length * each / 2**length for each in (base, relu, crelu))  # type: ignore[return-value]


def test_small_samples_are_exact_and_draws_come_near() -> None:
    values = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = gw.analysis.rademacher(values, width=3, norm=2.0)
    base, relu, crelu = by_hand(values.tolist())
    factor = 2 * math.sqrt(3)
    assert found.exact and found.draws == 2**7 and found.crelu_error == 0
    assert (found.base, found.relu, found.crelu) == pytest.approx(
        (base, factor * relu, factor * crelu)
    )
    more = torch.cat(
        (values, torch.zeros(5, 8)), 1
    )  # zeros change nothing but the number of samples
    drawn = gw.analysis.rademacher(more, width=3, norm=2.0, draws=20000)
    assert not drawn.exact and drawn.crelu_error > 0
    assert drawn.crelu * 15 / 7 == pytest.approx(found.crelu, abs=5 * drawn.crelu_error * 15 / 7)
    assert drawn.base * 15 / 7 == pytest.approx(found.base, abs=5 * drawn.base_error * 15 / 7)


def test_random_weights_never_exceed_the_supremum_over_weights() -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    found = gw.analysis.rademacher(values, width=2, norm=1.5)
    signs = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=6)), dtype=torch.float64)
    best = torch.zeros(len(signs), dtype=torch.float64)
    for _ in range(3000):  # two functions of the class, and weights on their four phases
        chosen = values[torch.randint(0, 4, (2,), generator=generator)]
        weights = torch.randn(4, generator=generator, dtype=torch.float64)
        weights *= 1.5 / weights.norm()
        output = weights @ torch.cat((chosen.clamp(min=0), (-chosen).clamp(min=0)))
        best = torch.maximum(best, (signs @ output).abs() * 2 / 6)
    assert 0.85 * found.crelu < float(best.mean()) <= found.crelu


def test_the_bound_as_printed_is_broken_and_the_one_with_the_constant_holds() -> None:
    counter = gw.analysis.rademacher(torch.tensor([[1.0, -1.0]]))
    assert counter.base == pytest.approx(1) and counter.crelu == pytest.approx(math.sqrt(2))
    assert counter.crelu > counter.printed_bound and counter.crelu <= counter.bound
    generator = torch.Generator().manual_seed(2)
    for _ in range(60):
        size = torch.randint(1, 9, (2,), generator=generator).tolist()
        values = torch.randn(*size, generator=generator) * torch.rand(
            size[0], 1, generator=generator
        )
        found = gw.analysis.rademacher(values, width=4)
        assert found.crelu <= found.bound * (
            1 + 1e-12
        ) and found.relu <= 2 * found.printed_bound * (1 + 1e-12)


def test_the_record_prints_saves_and_draws_and_bad_input_is_said() -> None:
    found = gw.analysis.rademacher(torch.randn(3, 40), draws=50)
    assert "bound" in repr(found) and "<code>" in found._repr_html_() and found.plot() is not None
    assert found.to_dict()["constant"] == pytest.approx(3 / math.sqrt(2))
    for wrong in (torch.randn(3), torch.full((2, 2), torch.nan), [[1.0]]):
        with pytest.raises(ArgumentError):
            gw.analysis.rademacher(wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="width"):
        gw.analysis.rademacher(torch.randn(2, 3), width=0)
    with pytest.raises(ArgumentError, match="norm"):
        gw.analysis.rademacher(torch.randn(2, 3), norm=-1.0)
