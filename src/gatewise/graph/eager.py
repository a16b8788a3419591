"""Run a model as plain code that returns tensors: without key-value caches and compiled calls.

Language models of Hugging Face return a cache object if ``use_cache`` is set in their
configuration, and a module after ``module.compile()`` calls compiled code. Neither can be read, and
neither changes what the model computes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

SETTING = "use_cache"
COMPILED = "_compiled_call_impl"


@contextmanager
def run_eagerly(model: nn.Module) -> Iterator[None]:
    """Within the context, ``use_cache`` is off in all configurations, and nothing is compiled."""
    configs = cache_settings(model)
    compiled = [
        (module, call) for module in model.modules() if (call := vars(module).get(COMPILED))
    ]
    try:
        for config in configs:
            setattr(config, SETTING, False)
        for module, _ in compiled:
            vars(module)[COMPILED] = None
        yield
    finally:
        for config in configs:
            setattr(config, SETTING, True)
        for module, call in compiled:
            vars(module)[COMPILED] = call


def cache_settings(model: nn.Module) -> list[Any]:
    """Return the configurations in ``model``, nested ones too, in which ``use_cache`` is set."""
    configs: dict[int, Any] = {}
    waiting = [getattr(module, "config", None) for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if config is None or id(config) in configs or not hasattr(config, "__dict__"):
            continue
        if not isinstance(vars(config).get(SETTING), bool):
            continue
        configs[id(config)] = config
        waiting += [value for value in vars(config).values() if hasattr(value, SETTING)]
    return [config for config in configs.values() if getattr(config, SETTING) is True]
