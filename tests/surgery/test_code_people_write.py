"""Swaps of the code that people write: traced graphs, shared helpers, loops, other entry points."""

import copy
import io

import pytest
import torch
from surgery.test_saved_swaps import build, transformers
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError

# Traced graphs


class Traced(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)
        self.act, self.one = nn.ReLU(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.a(x))
        h = self.act(self.b(h))
        h = self.act(self.b(h)).relu_()
        return self.c(self.one(h))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_traced_graph_is_edited_so_that_copies_and_files_are_swapped():
    torch.manual_seed(0)
    source, x = Traced().eval(), torch.randn(4, 8)
    model = torch.fx.symbolic_trace(source)
    f = F.softsign
    h = f(source.b(f(source.a(x))))
    expected = source.c(f(f(f(source.b(h)))))
    swapped = gw.swap(model, "softsign", x)
    assert len(gw.receipt(swapped).sites) == 5 and gw.receipt(swapped).proved
    file = io.BytesIO()
    torch.save(swapped, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    copied = copy.deepcopy(swapped)
    copied.recompile()
    for each in (swapped, copied, loaded):
        torch.testing.assert_close(each(x), expected)
    gw.undo(swapped)
    assert torch.equal(swapped(x), model(x)) and not hasattr(swapped, "gw")


def test_a_call_in_place_that_others_see_is_refused_in_a_graph():
    class Overwrites(Traced):
        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            return self.c(F.relu_(h) + self.b(h))

    model = torch.fx.symbolic_trace(Overwrites().eval())
    with pytest.raises(ArgumentError, match="under another name"):
        gw.swap(model, "silu", torch.randn(4, 8))


def test_what_export_has_made_is_refused():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.ReLU()), torch.randn(2, 8)
    exported = torch.export.export(model, (x,))
    for made in (exported.module(), nn.Sequential(exported.module())):
        with pytest.raises(ArgumentError, match="swap before export"):
            gw.swap(made, "silu", x)


# One call for several layers, and loops


class Helper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 12), nn.Linear(12, 6), nn.Linear(6, 3)

    def layer(self, x: Tensor, linear: nn.Module) -> Tensor:
        return F.relu(linear(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.layer(self.layer(x, self.a), self.b))


def test_one_helper_serves_layers_of_several_widths():
    model, x = Helper().eval(), torch.randn(4, 8)
    swapped = gw.swap(model, "silu", x)
    expected = model.c(F.silu(model.b(F.silu(model.a(x)))))
    torch.testing.assert_close(swapped(x), expected)
    torch.testing.assert_close(gw.swap(model, "psc", x)(x), model(x))
    with pytest.raises(ArgumentError, match="serves several layers"):
        gw.swap(model, "swish", x)  # a number for each channel


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(())
        for step in range(x.shape[1]):
            h = F.relu(self.first(x[:, step]) + h)
        return self.last(h)


def test_units_without_numbers_serve_any_number_of_steps():
    model, x, longer = Steps().eval(), torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    swapped = gw.swap(model, "silu", x)
    h = torch.zeros(())
    for step in range(7):
        h = F.silu(model.first(longer[:, step]) + h)
    torch.testing.assert_close(swapped(longer), model.last(h))
    with pytest.raises(ArgumentError, match="a loop runs more often"):
        gw.swap(model, "swish", x)(longer)


# Scripting, entry points, poolers, PReLU


def test_scripting_a_swapped_model_is_refused_also_inside_another():
    swapped = gw.swap(Helper().eval(), "silu", torch.randn(4, 8))
    for model in (swapped, nn.Sequential(swapped)):
        with pytest.raises(ArgumentError, match=r"torch.jit.script"):
            torch.jit.script(model)


class WithEncode(Helper):
    def encode(self, x: Tensor) -> Tensor:
        return F.relu(self.a(x))


def test_entry_points_with_activations_of_their_own_are_named():
    model, x = WithEncode().eval(), torch.randn(4, 8)
    receipt = gw.receipt(gw.swap(model, "silu", x))
    assert receipt.unreached == ("method encode, which calls relu itself",)
    assert "encode" in str(receipt)
    with pytest.raises(ArgumentError, match="encode"):
        gw.swap(model, "silu", x, strict=True)


def test_the_pooler_stays_and_the_configuration_follows(tmp_path):
    transformers()
    library = transformers()
    torch.manual_seed(0)
    config = library.BertConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    model = library.BertModel(config).eval()
    ids = {"input_ids": torch.randint(0, 50, (2, 7))}
    roles = {site.op: site.role for site in gw.find_sites(model, ids)}
    assert roles == {"gelu": "mlp", "tanh": "pooler"}
    swapped = gw.swap(model, "relu", ids)
    assert "a pooler, left as it is" in gw.receipt(swapped).details
    assert isinstance(swapped.pooler.activation, nn.Tanh)
    swapped.save_pretrained(tmp_path)
    assert library.AutoConfig.from_pretrained(tmp_path).hidden_act == "relu"
    both = gw.swap(model, "relu", ids, where="role:*")
    assert len(gw.receipt(both).sites) == 2


def test_psc_takes_over_a_prelu_with_its_slopes():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.PReLU(8), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3), nn.Flatten()
    ).eval()
    with torch.no_grad():
        model[1].weight.uniform_(0.05, 0.6)
    x = torch.randn(2, 3, 9, 9)
    swapped = gw.swap(model, "psc", x, preserve=True)
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)
    receipt = gw.receipt(swapped)
    assert receipt.parameters[1] == receipt.parameters[0] - 8 + model[3].weight.numel()


def test_code_of_installed_packages_is_counted_and_strict_can_be_passed():
    model, ids = build("llama")
    receipt = gw.receipt(gw.swap(model, "relu", ids, strict=True))
    assert receipt.unreached == () and len(str(receipt).splitlines()) == 4
    assert "branches in files of installed packages were not reached" in receipt.details
