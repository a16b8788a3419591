"""Swaps of the code that people write: traced graphs, shared helpers, loops, other entry points."""

import copy
import functools
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


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_traced_graphs_inside_a_model_are_edited():
    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.fx.symbolic_trace(Traced())
            self.rest = nn.Sequential(nn.Linear(3, 8), torch.fx.symbolic_trace(Composites()))

        def forward(self, x: Tensor) -> Tensor:
            return self.rest(F.relu(self.first(x)))

    torch.manual_seed(0)
    model, x = Inside().eval(), torch.randn(4, 8)
    swapped = gw.swap(model, "softsign", x)
    f, a, b = F.softsign, model.first, model.rest[1]
    h = f(a.b(f(a.a(x))))
    h = model.rest[0](f(a.c(f(f(f(a.b(h)))))))
    h = f(b.b(f(b.b(f(b.a(h))))))
    expected = b.c(f(b.b(h)))
    assert len(gw.receipt(swapped).sites) == 10 and gw.receipt(swapped).proved
    for each in (swapped, copy.deepcopy(swapped)):
        torch.testing.assert_close(each(x), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(gw.undo(swapped)(x), model(x))


def test_a_call_in_place_that_others_see_is_refused_in_a_graph():
    class Overwrites(Traced):
        def forward(self, x: Tensor) -> Tensor:
            h = self.a(x)
            return self.c(F.relu_(h) + self.b(h))

    model = torch.fx.symbolic_trace(Overwrites().eval())
    with pytest.raises(ArgumentError, match="under another name"):
        gw.swap(model, "silu", torch.randn(4, 8))


class Composites(Traced):
    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        h = h * torch.sigmoid(h)
        h = self.b(F.relu(self.b(h)).square())
        return self.c(F.relu6(self.b(0.5 * h * (1.0 + torch.erf(h / 2**0.5)))))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_composites_of_a_traced_graph_are_replaced_as_a_whole():
    torch.manual_seed(0)
    source, x = Composites().eval(), torch.randn(4, 8)
    model = torch.fx.symbolic_trace(source)
    swapped = gw.swap(model, "softsign", x, where=["*silu*", "*relu2*", "*gelu*"])
    f = F.softsign
    h = f(source.b(f(source.b(f(source.a(x))))))
    expected = source.c(F.relu6(source.b(h)))
    calls = {str(node.target) for node in swapped.graph.nodes}
    assert gw.receipt(swapped).proved and not any("sigmoid" in call for call in calls)
    for each in (swapped, copy.deepcopy(swapped)):
        each.recompile()
        torch.testing.assert_close(each(x), expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(gw.undo(swapped)(x), model(x))


class SizeInBuffer(nn.Module):
    """Converters of files write the sizes of a reshape as a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)
        self.last = nn.Linear(8, 3)
        self.register_buffer("size", torch.tensor([-1, 8]))

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.b(F.relu(self.a(x)))).mean((2, 3), keepdim=True)
        return self.last(torch.reshape(h, self.size_of()))

    def size_of(self) -> torch.Size:
        return torch.Size(self.size.tolist())


class SizeInCode(SizeInBuffer):
    def size_of(self) -> torch.Size:
        return torch.Size([-1, 8])


@pytest.mark.parametrize(
    "make", [SizeInBuffer, SizeInCode, lambda: torch.fx.symbolic_trace(SizeInCode())]
)
def test_a_site_before_a_reshape_to_a_fixed_size_is_refused_and_the_others_change(make):
    torch.manual_seed(0)
    model, x = make().eval(), torch.randn(2, 3, 8, 8)
    before = model(x)
    plan = gw.plan(model, "crelu", x, preserve=True)
    (refused,) = plan.refused
    assert "reshapes its channels to a fixed size" in refused.why
    assert "(2, 8, 1, 1) to (2, 8)" in refused.why
    again = gw.surgery.Plan.from_json(plan.to_json())
    for swapped in (
        gw.swap(model, "crelu", x, preserve=True),
        plan.apply(model, inplace=False),
        again.apply(model, inplace=False, example=x),
    ):
        receipt = gw.receipt(swapped)
        assert receipt.proved and len(receipt.sites) == 1
        assert receipt.refused == {refused.site: refused.why}
        torch.testing.assert_close(swapped(x), before)


def test_a_plan_that_is_tried_leaves_the_random_state_and_the_model_alone():
    torch.manual_seed(0)
    model, x = SizeInCode().train(), torch.randn(2, 3, 8, 8)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    random = torch.get_rng_state()
    gw.plan(model, "crelu", x, preserve=False, width="same")
    assert torch.equal(torch.get_rng_state(), random) and model.training
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_a_site_before_a_reshape_to_the_size_of_its_input_changes():
    class SizeOfInput(SizeInBuffer):
        def forward(self, x: Tensor) -> Tensor:
            h = F.relu(self.b(F.relu(self.a(x)))).mean((2, 3), keepdim=True)
            return self.last(h.reshape(h.shape[0], h.shape[1]))

    torch.manual_seed(0)
    x = torch.randn(2, 3, 8, 8)
    assert len(gw.receipt(gw.swap(SizeOfInput().eval(), "crelu", x, preserve=True)).sites) == 2


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


def test_a_constructor_that_names_an_activation_is_no_entry_point():
    class Made(Helper):
        def __init__(self) -> None:
            super().__init__()
            self.act = functools.partial(F.leaky_relu, negative_slope=0.2)

        def layer(self, x: Tensor, linear: nn.Module) -> Tensor:
            return self.act(linear(x))

    receipt = gw.receipt(gw.swap(Made().eval(), "silu", torch.randn(4, 8), strict=True))
    assert receipt.unreached == () and len(receipt.sites) == 2


def test_calls_of_other_entry_points_are_checked_on_request():
    torch.manual_seed(0)
    model, x = WithEncode().eval(), torch.randn(4, 8)

    def encode(each: nn.Module) -> Tensor:
        return each.encode(x)

    receipt = gw.receipt(gw.swap(model, "silu", x, calls=[encode]))
    assert receipt.unreached == () and "encode: differs from the original by 0," in receipt.details

    class Inside(WithEncode):
        def encode(self, x: Tensor) -> Tensor:
            return self.layer(x, self.a)

    receipt = gw.receipt(gw.swap(Inside().eval(), "silu", x, calls=[encode]))
    assert "encode: differs from the original by 0.1" in receipt.details
    with pytest.raises(gw.surgery.SwapFailed, match=r"encode: relative difference [01]\."):
        gw.swap(Inside().eval(), "psc", x, calls=[encode])


def test_attributes_that_change_are_named_where_the_function_is_kept():
    class Keeps(Helper):
        def forward(self, x: Tensor) -> Tensor:
            self.feature = F.relu(self.a(x))
            self.all = {"first": [self.feature]}
            return self.c(F.relu(self.b(self.feature)))

    torch.manual_seed(0)
    model, x = Keeps().eval(), torch.randn(4, 8)
    for unit in ("psc", "crelu"):
        details = gw.receipt(gw.swap(model, unit, x)).details
        assert "2 modules or attributes have other values than before (feature, all)" in details


def test_the_first_step_of_a_recurrent_loop_is_no_pooler():
    class Tanh(Steps):
        def forward(self, x: Tensor) -> Tensor:
            h = torch.zeros(())
            for step in range(x.shape[1]):
                h = torch.tanh(self.first(x[:, step]) + h)
            return self.last(h)

    model, x = Tanh().eval(), torch.randn(2, 3, 8)
    h = torch.zeros(())
    for step in range(3):
        h = F.silu(model.first(x[:, step]) + h)
    torch.testing.assert_close(gw.swap(model, "silu", x)(x), model.last(h))


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
    for unit in ("crelu", "concat_act"):
        plan = gw.plan(model, unit, ids)
        assert [entry.op for entry in plan.swapped] == ["gelu"] and not plan.refused
        assert "a pooler, left as it is" in str(plan)
    with pytest.raises(ArgumentError, match=r"1 x .*\(gelu\); 1 x .*\(tanh\); fix: choose other"):
        gw.plan(model, "psc", ids, where="role:*")


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(8, 8, batch_first=True)
        self.dense, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.dense(self.rnn(x)[0][:, -1])))


def test_the_tanh_head_of_a_recurrent_model_is_no_pooler():
    model, x = Sequences().eval(), torch.randn(2, 3, 8)
    (site,) = gw.find_sites(model, x)
    assert site.role == "mlp"

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pooler = Sequences()

        def forward(self, x: Tensor) -> Tensor:
            return self.pooler(x)

    (site,) = gw.find_sites(Named().eval(), x)
    assert site.role == "pooler"


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


@pytest.mark.parametrize("unit", ["psc", "crelu"])
def test_a_prelu_that_several_layers_share_is_taken_over(unit: str):
    class Shared(Helper):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.PReLU(init=0.4)

        def forward(self, x: Tensor) -> Tensor:
            return self.c(self.act(self.b(self.act(self.a(x)))))

    torch.manual_seed(0)
    model, x = Shared().eval(), torch.randn(4, 8)
    plan = gw.plan(model, unit, x)
    swapped = plan.apply(model, inplace=False)
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)
    receipt = gw.receipt(swapped)
    assert receipt.proved and len(receipt.sites) == 2 and receipt.preserve
    assert plan.parameters == receipt.parameters


def leaky(between: nn.Module) -> nn.Sequential:
    slopes = nn.PReLU(8)
    nn.init.uniform_(slopes.weight, 0.05, 0.6)
    layers = (nn.Conv2d(3, 8, 3), slopes, between, nn.Conv2d(8, 4, 3), nn.Flatten())
    return nn.Sequential(*layers, nn.LeakyReLU(0.2), nn.Linear(100, 3)).eval()


def test_crelu_gives_leaky_relu_and_prelu_back_with_scaled_weights():
    torch.manual_seed(0)
    model, x = leaky(nn.Dropout()), torch.randn(2, 3, 9, 9)
    plan = gw.plan(model, "crelu", x, preserve=True)
    swapped = gw.surgery.Plan.from_json(plan.to_json()).apply(model, inplace=False, example=x)
    assert gw.receipt(swapped).proved and len(gw.receipt(swapped).sites) == 2
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)
    weight, slopes = model[3].weight, model[1].weight.reshape(-1, 1, 1)
    torch.testing.assert_close(swapped[3].weight, torch.cat((weight, -slopes * weight), 1))
    swapped.load_state_dict(model.state_dict())
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)
    assert torch.equal(gw.undo(swapped)(x), model(x))


@pytest.mark.parametrize("between", [nn.MaxPool2d(3, 1, 1), nn.BatchNorm2d(8), nn.Tanh()])
def test_crelu_cannot_give_slopes_back_behind_other_calls(between: nn.Module):
    model, x = leaky(between), torch.randn(2, 3, 9, 9)
    with pytest.raises(ArgumentError, match="concat_act does it"):
        gw.plan(model, "crelu", x, preserve=True, where="1")


def test_a_layer_reads_the_slopes_of_each_of_its_sites():
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 6), nn.Linear(8, 6), nn.Linear(18, 3)

        def forward(self, x: Tensor) -> Tensor:
            a, b = self.a(x), self.b(x)
            return self.c(torch.cat((F.leaky_relu(a, 0.3), b.relu(), F.leaky_relu(b, 0.7)), -1))

    torch.manual_seed(0)
    model, x = Joined().eval(), torch.randn(4, 8)
    swapped = gw.swap(model, "crelu", x, preserve=True)
    assert len(gw.receipt(swapped).sites) == 3
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)


def test_code_of_installed_packages_is_counted_and_strict_can_be_passed():
    model, ids = build("llama")
    receipt = gw.receipt(gw.swap(model, "relu", ids, strict=True))
    assert receipt.unreached == () and len(str(receipt).splitlines()) == 4
    assert "lines in files of installed packages were not reached" in receipt.details


class Starred(Helper):
    def layer(self, *args: Tensor) -> Tensor:
        return F.relu(*args)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(self.layer(self.b(self.layer(self.a(x)))))


def test_arguments_that_are_unpacked_are_passed_on():
    model, x = Starred().eval(), torch.randn(4, 8)
    expected = model.c(F.silu(model.b(F.silu(model.a(x)))))
    torch.testing.assert_close(gw.swap(model, "silu", x)(x), expected)


def of_module(x: Tensor) -> Tensor:
    """Return the activation of a function of the module."""
    return torch.relu(x)


def outer(x: Tensor) -> Tensor:
    return of_module(x)


def closure(slope: float):
    def act(x: Tensor, slope: float = slope) -> Tensor:
        return F.leaky_relu(x, slope)

    return act


class Callable:
    def __call__(self, x: Tensor) -> Tensor:
        return F.relu(x)


class Wrapped(nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 12), nn.Linear(12, 6), nn.Linear(6, 3)
        self.by_lambda = lambda x: F.relu(x)
        self.by_closure = closure(0.0)
        self.by_object = Callable()
        self.name = name

    @staticmethod
    def by_static_method(x: Tensor) -> Tensor:
        return F.relu(x)

    @classmethod
    def by_class_method(cls, x: Tensor) -> Tensor:
        return x.relu()

    def forward(self, x: Tensor) -> Tensor:
        if self.name == "global":
            return self.c(of_module(self.b(outer(self.a(x)))))
        if self.name == "lambda":
            return self.c(self.by_lambda(self.b(self.by_lambda(self.a(x)))))
        if self.name == "closure":
            return self.c(self.by_closure(self.b(self.by_closure(self.a(x)))))
        if self.name == "object":
            return self.c(self.by_object(self.b(self.by_object(self.a(x)))))
        if self.name == "static":
            return self.c(self.by_static_method(self.b(self.by_static_method(self.a(x)))))
        return self.c(self.by_class_method(self.b(self.by_class_method(self.a(x)))))


@pytest.mark.parametrize("name", ["global", "lambda", "closure", "object", "static", "class"])
def test_functions_that_return_an_activation_are_replaced_where_they_are_called(name: str):
    torch.manual_seed(0)
    model, x = Wrapped(name).eval(), torch.randn(4, 8)
    expected = model.c(F.silu(model.b(F.silu(model.a(x)))))
    torch.testing.assert_close(gw.swap(model, "silu", x)(x), expected)
    for unit in ("crelu", "psc"):
        torch.testing.assert_close(gw.swap(model, unit, x)(x), model(x), rtol=1e-5, atol=1e-6)


def by_size(x: Tensor) -> Tensor:
    return F.relu(x) if len(x) > 3 else x


def of_layer(x: Tensor, layer: nn.Module) -> Tensor:
    return F.relu(layer(x))


def of_two(x: Tensor, slope: float) -> Tensor:
    return F.leaky_relu(x, slope)


@pytest.mark.parametrize(
    "function",
    [
        by_size,
        lambda x: of_layer(x, nn.Identity()),
        lambda x: of_two(x, 0.0),
        lambda x: x.relu() + 1,
    ],
)
def test_functions_that_do_more_are_refused(function):
    class Model(Helper):
        def forward(self, x: Tensor) -> Tensor:
            return self.c(self.b(function(self.a(x))))

    with pytest.raises(ArgumentError, match="no method of a module"):
        gw.swap(Model().eval(), "silu", torch.randn(4, 8))


@pytest.mark.parametrize("act", [nn.ReLU, nn.Hardswish])
@pytest.mark.parametrize("unit", ["crelu", "concat_act"])
def test_a_dropout_in_place_behind_two_phases_can_be_trained(act: type[nn.Module], unit: str):
    torch.manual_seed(0)
    layers = (nn.Linear(8, 8), act(inplace=True), nn.Dropout(0.2, inplace=True), nn.Linear(8, 3))
    x = torch.randn(4, 8)  # the classifier of torchvision's mobilenet_v3
    swapped = gw.swap(nn.Sequential(*layers).eval(), unit, x).train()
    assert gw.receipt(swapped).proved
    swapped(x).sum().backward()
    assert swapped[0].weight.grad.any() and swapped[3].weight.grad[:, 8:].any()


def test_a_gated_linear_unit_is_no_place_for_crelu():
    class Gated(Helper):
        def forward(self, x: Tensor) -> Tensor:
            return self.c(F.relu(self.b(F.glu(torch.cat((self.a(x), self.a(-x)), 1)))))

    torch.manual_seed(0)
    model, x = Gated().eval(), torch.randn(4, 8)
    swapped = gw.swap(model, "crelu", x)
    (reason,) = gw.receipt(swapped).refused.values()
    assert "it holds a gate and a value" in reason
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("unit", ["crelu", "psc", "silu"])
def test_code_that_names_the_type_of_its_numbers_cannot_be_checked(dtype: torch.dtype, unit: str):
    class Typed(Helper):
        def forward(self, x: Tensor) -> Tensor:
            return self.c(F.relu(self.b(self.a(x.to(dtype)).relu())))

    torch.manual_seed(0)
    model, x = Typed().to(dtype).eval(), torch.randn(4, 8)
    swapped = gw.swap(model, unit, x)
    receipt = gw.receipt(swapped)
    assert len(receipt.sites) == 2 and swapped(x).dtype is dtype
    if unit != "silu":
        assert not receipt.proved and "cannot be run in float32" in str(receipt)
        close = 1e-12 if dtype is torch.float64 else 0.1
        torch.testing.assert_close(swapped(x), model(x), rtol=close, atol=close)


class Masked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 3)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.encoder(x, src_key_padding_mask=mask))


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("unit", ["silu", "crelu", "psc"])
def test_an_encoder_with_a_padding_mask_runs_in_eval_mode(unit: str):
    torch.manual_seed(0)
    model, x = Masked().eval(), torch.randn(3, 5, 16)
    mask = torch.arange(5) >= torch.tensor([[3], [4], [5]])
    swapped = gw.swap(model, unit, (x, mask))
    receipt = gw.receipt(swapped)
    assert receipt.proved and "encoder: rows of padding are computed now" in receipt.details
    assert model.encoder.use_nested_tensor
    with torch.no_grad():
        outputs = swapped(x, mask)
        if unit != "silu":
            torch.testing.assert_close(outputs[~mask], model(x, mask)[~mask], rtol=1e-4, atol=1e-5)
    gw.undo(swapped)
    assert swapped.encoder.use_nested_tensor
