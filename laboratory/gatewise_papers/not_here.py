"""Tables and figures of the five papers that no experiment reproduces, and why."""

from dataclasses import dataclass


@dataclass(frozen=True)
class NotHere:
    """A table or figure without an experiment.

    Attributes:
        name: ``paper/figure``.
        title: in a few words.
        reason: why it is not run.
    """

    name: str
    title: str
    reason: str


CURVES = "curves whose numbers are iieu/table1 and iieu/table2, which draw them"
DRAWING = "shows no numbers"
DEFINITION = "defines a network; nothing is measured"
NOT_HERE = (
    NotHere("crelu/figure1", "first filters of AlexNet and their partners", DRAWING),
    NotHere("crelu/figure3", "convolution, CReLU and max-pooling", DRAWING),
    NotHere("crelu/table3", "other methods on CIFAR", "quotes the results of others"),
    NotHere("deep_gated/table1", "a deep gated network", DEFINITION),
    NotHere("deep_gated/table2", "a network with parameterised gates", DEFINITION),
    NotHere("deep_gated/table3", "variants of the networks", DEFINITION),
    NotHere("deep_gated/table5", "the vectorised form", DEFINITION),
    NotHere("deep_gated/figure9", "a circular convolution", DRAWING),
    NotHere("iieu/figure1", "curves of ResNets, of which Tables 1 and 2 are the numbers", CURVES),
)
