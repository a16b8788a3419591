"""How far tensors at activations reach, and what clamps cost, against hooks and plain forwards."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError, NotApplicableError


class Gated(nn.Module):
    """A gated linear unit behind a skip connection, whose branches can be clamped."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate, self.up = nn.Linear(6, 12), nn.Linear(6, 12)
        self.down = nn.Linear(12, 4)
        self.limit: float | None = None

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate(x), self.up(x)
        if self.limit is not None:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return self.down(F.silu(gate) * up)


class Halves(nn.Module):
    """The same function by one layer and a unit of this library."""

    def __init__(self, gated: Gated) -> None:
        super().__init__()
        self.both, self.unit, self.down = (
            nn.Linear(6, 24),
            gw.nn.SwiGLU(layout="gate_first"),
            gated.down,
        )
        with torch.no_grad():
            self.both.weight.copy_(torch.cat((gated.gate.weight, gated.up.weight)))
            self.both.bias.copy_(torch.cat((gated.gate.bias, gated.up.bias)))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.unit(self.both(x)))


X = 9 * torch.randn(300, 6, generator=torch.Generator().manual_seed(1))
Y = torch.arange(300) % 4


def test_quantiles_and_shares_are_those_of_the_branches_of_a_gated_linear_unit() -> None:
    model = Gated()
    with torch.no_grad():
        gate, up = model.gate(X), model.up(X)
    want = {"gate": gate, "up": up, "product": F.silu(gate) * up}
    for network in (model, Halves(model)):
        found = gw.analysis.tails(network, list(X.split(100)), limits=(7.0, 2.5))
        assert [each.branch for each in found.branches] == list(want)
        for each, values in zip(found.branches, want.values(), strict=True):
            assert each.least == pytest.approx(float(values.min()), rel=1e-4)
            assert each.most == pytest.approx(float(values.max()), rel=1e-4)
            for limit in (7.0, 2.5):
                share = float((values.abs() > limit).float().mean())
                assert each.outside[limit] == pytest.approx(share, abs=1e-6)
            for share, value in each.quantiles.items():
                wanted = float(values.flatten().quantile(share))
                assert value == pytest.approx(wanted, rel=0.06, abs=0.02)


@pytest.mark.parametrize("halves", [False, True])
def test_the_cost_of_a_clamp_is_the_loss_of_a_model_that_clamps(halves) -> None:
    model = Gated()
    network = Halves(model) if halves else model
    found = gw.analysis.tails(network, [(X[:200], Y[:200]), (X[200:], Y[200:])], limits=(2.5,))
    with torch.no_grad():
        plain = float(F.cross_entropy(model(X), Y))
        model.limit = 2.5
        clamped = float(F.cross_entropy(model(X), Y))
    assert found.loss == pytest.approx(plain, rel=1e-5)
    everywhere, single = found.costs
    assert everywhere.site == "all activations" and everywhere.limit == 2.5
    assert everywhere.loss == pytest.approx(clamped - plain, rel=1e-4)
    assert single.loss == everywhere.loss  # there is one activation
    assert f"{clamped - plain:+.4f} in loss" in repr(found)


def test_without_labels_the_change_of_the_outputs_is_measured() -> None:
    model = Gated()
    found = gw.analysis.tails(model, X, limits=(2.5, 1e3))
    assert found.loss is None and {each.limit for each in found.costs} == {2.5}
    with torch.no_grad():
        before = model(X)
        model.limit = 2.5
        moved = float((model(X) - before).norm() / before.norm())
    assert found.costs[0].difference == pytest.approx(moved, rel=1e-4)


def test_a_clamp_leaves_a_skip_connection_alone() -> None:
    class Skip(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + F.gelu(x)

    found = gw.analysis.tails(Skip(), X, limits=(3.0,))
    assert [each.branch for each in found.branches] == ["input", "output"]
    before = X + F.gelu(X)
    moved = (X + F.gelu(X.clamp(-3, 3)) - before).norm() / before.norm()
    assert found.costs[0].difference == pytest.approx(float(moved), rel=1e-4)


class Language(nn.Module):
    """A causal language model, and one that reads later tokens."""

    def __init__(self, *, causal: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.inner = nn.Embedding(30, 16), nn.Linear(16, 32)
        self.head, self.causal = nn.Linear(32, 30), causal

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        x = x.cumsum(1) if self.causal else x + x.mean(1, keepdim=True)
        return self.head(F.relu(8 * self.inner(x)))


def test_the_loss_of_a_causal_language_model_is_that_of_the_next_token() -> None:
    tokens = torch.randint(30, (3, 12))
    model = Language(causal=True)
    found = gw.analysis.tails(model, tokens, limits=(2.0,))
    with torch.no_grad():
        want = F.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert found.loss == pytest.approx(float(want), rel=1e-5)
    assert gw.analysis.tails(Language(causal=False), tokens, limits=(2.0,)).loss is None


def test_single_activations_are_left_out_for_time_and_a_note_says_so() -> None:
    model = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 9), nn.GELU(), nn.Linear(9, 3))
    told: list[tuple[int, int | None]] = []
    found = gw.analysis.tails(
        model, X, limits=(0.5,), seconds=1e-9, progress=lambda *done: told.append(done)
    )
    assert [each.site for each in found.costs] == ["all activations"]
    assert found.notes == ("2 clamps of single activations were left out for time",)
    assert told == [(0, 3), (1, 3)]


def test_a_diagnosis_answers_it_when_asked() -> None:
    answer = gw.diagnose(Gated(), [(X, Y)], questions="tails")["tails"]
    assert answer.state == "answered", answer.detail
    assert "largest magnitude" in answer.line and "a clamp there costs" in answer.line
    assert len(answer.facts["branches"]) == 3
    assert "tails" not in [each.name for each in gw.diagnose(Gated(), X)]


def test_padding_does_not_count_and_bad_input_is_said() -> None:
    class Masked(Gated):
        def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
            return super().forward(x) * attention_mask.unsqueeze(-1)

    x = X.view(10, 30, 6).clone()
    mask = torch.ones(10, 30)
    mask[:, 20:] = 0
    x[:, 20:] = 1e4
    found = gw.analysis.tails(Masked(), [{"x": x, "attention_mask": mask}])
    assert found.branches[0].most < 1e3
    with pytest.raises(ArgumentError, match="limits"):
        gw.analysis.tails(Gated(), X, limits=(0.0,))
    with pytest.raises(NotApplicableError, match="no activations"):
        gw.analysis.tails(nn.Linear(6, 2), X)
