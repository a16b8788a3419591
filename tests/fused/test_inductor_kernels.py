"""Inductor makes one kernel of each plain form, so compiled models pay for one pass."""

import pytest
import torch
from fused.unit_forms import unit_forms
from torch._functorch import config as functorch_config
from torch._inductor import config, metrics
from torch._inductor.utils import get_code

from gatewise.units import run_plain

pytestmark = pytest.mark.thorough
FORMS = unit_forms()


def count_kernels(function, *inputs: torch.Tensor) -> int:
    """Let Inductor write the code of a function, without compiling it, and count its kernels."""
    torch._dynamo.reset()
    metrics.reset()
    # Otherwise torch would keep code that was never built.
    no_cache = config.patch(fx_graph_cache=False, fx_graph_remote_cache=False)
    with no_cache, functorch_config.patch(enable_autograd_cache=False):
        code, *_ = get_code(torch.compile(function, fullgraph=True), *inputs)
    assert "async_compile.cpp_pybinding(" in code
    return metrics.generated_kernel_count


@pytest.mark.parametrize("name", FORMS)
def test_the_plain_form_is_one_kernel(name: str):
    plain, numbers = FORMS[name]
    x = torch.randn(4, 6, 8, 8)
    given = [torch.rand(1, 6, 1, 1) for _ in range(numbers)]
    assert count_kernels(lambda x, *given: run_plain(plain, x, given), x, *given) == 1


def test_the_count_sees_a_second_kernel():
    assert count_kernels(lambda x: (x - x.sum()).exp(), torch.randn(64, 64)) == 2
