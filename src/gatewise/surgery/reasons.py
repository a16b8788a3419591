"""Why a site is left as it is: a closed list of reasons, with the words that plans show."""

from enum import StrEnum


class Reason(StrEnum):
    """Every reason a plan can give for refusing a site."""

    NO_CHANNELS = "no layer tells which dimension holds its channels"
    GATE = "it is a gate: its output is a factor, not features"
    GATED = "its output is multiplied by an unwidened tensor (squeeze-excite or gated linear unit)"
    RESIDUAL = "its output is added to an unwidened tensor (residual stream)"
    ALREADY_WIDENED = "its own input is widened already: one widening per channel group"
    DIFFERENT = "two tensors that meet are widened differently"
    NORM = "a norm over the channels mixes old and new ones"
    STATISTICS = "a statistic over the channels mixes old and new ones"
    ATTENTION = "it feeds a product of two activations (attention)"
    GROUPS = "a group of a grouped layer would see another group's channels"
    RESHAPE = "a reshape splits or merges its channels in a way that cannot be followed"
    FIXED_SIZE = "the model's code reshapes its channels to a fixed size"
    SPLIT = "a split of fixed sizes cuts through its channels"
    COMPUTED_WEIGHT = "a weight behind it is computed, not stored (weight norm, parametrisation)"
    SHARED = "a weight behind it is used elsewhere too (tied or shared)"
    SHARED_CALL = "its call in the source serves several layers, which would need different units"
    OUTPUT = "it reaches the model's output"
    INPUT = "the model's input would have to be widened"
    NO_RULE = "there is no rule for an operator behind it"
    ODD = "half of an odd number of channels"
    BRANCH = "the layer in front of it is read by others too"
    NOT_PRESERVED = "the unit cannot give back this activation's values"
    NOT_HOMOGENEOUS = "the activation is not positively homogeneous"
    AVERAGED = "its output is averaged before the next layer"
    NOT_A_LAYER = "what reads it is not a plain convolution or linear layer of its own"
    SOURCE = "the call stands in code that cannot be rewritten"
    SUMMED = (
        "its input is a sum: no one layer makes it (placement='before' puts units into the "
        "branches)"
    )
    JOINED = "its input is joined from several tensors: no one layer makes it"
    NO_PRODUCER = "no convolution or linear layer of torch's own makes its input"
    UNIT = (
        "it is inside a unit or layer of this library, which is replaced as a whole or not at all"
    )
    OTHER_WIDTH = (
        "it is a unit with another number of outputs than inputs, which the layers around it fit "
        "(gw.undo(model) takes back the swap that put it in)"
    )
    HOOKS = "its module has hooks, which would no longer see the activation's output"
    TWO_BRANCHES = (
        "it holds a gate and a value: exchange its gate by glu, swiglu, geglu, reglu or bilinear"
    )
    NOT_GLU = (
        "it is not the gate of a gated linear unit (hidden='matched' makes one of a feed-forward "
        "part)"
    )
    NO_GLU = "it is a plain activation, not the gate of a gated linear unit"
    VALUE = "it is the value of a gated linear unit, which changes together with the gate"
    NOT_MLP = "it does not stand between two linear layers of torch that nothing else uses"
    SEVERAL = "it is written with several calls, which only a pointwise unit can replace"
    PART = "the code computes more of its input than this activation, which would stay as it is"
    NOT_ATTENTION = (
        "it is not an attention layer that takes a gate (torch.nn.MultiheadAttention, or one with "
        "an OpenGate)"
    )
    CLOSED_ATTENTION = (
        "no place for a gate was found between its heads and its output projection (call a "
        "gatewise.nn.OpenGate there)"
    )
    NARROW = "it has fewer channels than the coupler's reduction"


class Refusal(Exception):  # noqa: N818  not an error: a site that is left as it is
    """Raised inside the planner: this site cannot be changed, and this is the reason."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value} ({detail})" if detail else reason.value)
        self.reason = reason
        self.detail = detail
