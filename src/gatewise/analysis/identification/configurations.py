"""What a model's configuration says about its activation function."""

from typing import Any

from torch import nn

FIELDS = ("hidden_act", "hidden_activation", "activation_function", "ffn_activation", "activation")
LIMIT_FIELDS = ("swiglu_limit",)
# The names of Hugging Face configurations, and those of the functions here.
CONFIG_NAMES = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "silu": "silu",
    "swish": "silu",
    "swiglu": "silu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "xielu": "xielu",
    "selu": "selu",
    "linear": "identity",
}


def configured_activation(model: nn.Module) -> tuple[str, str, float | None]:
    """Return the field of the configuration, its value, and the limit of a clamp.

    Args:
        model: a model, with or without a ``config``.

    Returns:
        Empty texts, if there is no configuration or it names no activation.
    """
    config: Any = getattr(model, "config", None)
    limit = None
    for name in LIMIT_FIELDS:
        value = getattr(config, name, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            limit = float(value)
    for name in FIELDS:
        value = getattr(config, name, None)
        if isinstance(value, str):
            return name, value, limit
    return "", "", limit
