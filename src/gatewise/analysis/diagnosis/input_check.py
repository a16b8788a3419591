"""Whether the inputs look as they did in training: what depends on them is only then worth reading.

Three things tell. A classifier that predicts one class for different inputs does not recognise
them. The running statistics of a batch norm say which activations it saw in training. And channels
whose output is constant say that the biases decide, not the inputs. The first and the last can only
raise suspicion: inputs of another scale may get different predictions all the same, so without
batch norms nothing is said to have passed. Channels in another order or a small shift of the mean
change none of these, so a check that passes is no proof.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.questions import gate_counts
from gatewise.analysis.record import AnalysisResult
from gatewise.words import joined, plural

PASSED = "passed"
SUSPECT = "suspect"
NOT_CHECKED = "not checked"
INPUTS = 400  # on which predictions and statistics are computed
ENOUGH = 10  # inputs: fewer may well be of one class
MANY = 10  # classes
AGREE = {"many": 0.6, "few": 0.9}  # shares of one prediction that are suspect
MORE = 0.3  # the share of one prediction is suspect if it is this much above that of one label
CONSTANT = 0.5  # a share of the channels
SHIFT = 1.0  # of the mean, in standard deviations of training
RATIO = 3.0  # of the variance, either way
UNTRAINED = 0.8  # of the bound of PyTorch's initialisation


@dataclass(frozen=True)
class InputCheck(AnalysisResult):
    """Whether the inputs can be trusted.

    Attributes:
        state: ``"passed"``, ``"suspect"`` or ``"not checked"``.
        reasons: What makes the inputs suspect, or what could not be checked; one sentence each.
        line: The result in one sentence.
        predictions: How many inputs were classified, how many classes they got, and the most common
            class. Empty if the model is no classifier.
        norms: Of every trained batch norm: its name, the shift of the mean in standard deviations,
            and the ratio of the variances. Both are medians over the channels.
    """

    state: str
    reasons: tuple[str, ...]
    line: str
    predictions: dict[str, Any]
    norms: tuple[dict[str, Any], ...]


class _NormInputs:
    """Mean and variance of the channels that enter a batch norm, over all batches."""

    def __init__(self, name: str, norm: Any) -> None:
        self.name = name
        self.norm = norm
        self.count = 0
        self.total: Tensor | float = 0.0
        self.squares: Tensor | float = 0.0

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        x = args[0].detach().double()
        rows = x.movedim(1, 0).flatten(1) if x.dim() > 1 else x[:, None]
        self.count += rows.shape[1]
        self.total = self.total + rows.sum(1)
        self.squares = self.squares + rows.square().sum(1)

    def facts(self) -> dict[str, Any]:
        """Compare with the statistics of training."""
        mean = torch.as_tensor(self.total) / self.count
        variance = torch.as_tensor(self.squares) / self.count - mean.square()
        trained = self.norm.running_var.double() + self.norm.eps
        shift = (mean - self.norm.running_mean.double()).abs() / trained.sqrt()
        return {
            "layer": self.name,
            "shift": float(shift.median()),
            "ratio": float((variance / trained).median()),
        }


def check_inputs(context: DiagnosisContext, findings: Mapping[str, Any]) -> InputCheck:
    """Compare the inputs with what the network has seen in training, as far as it tells.

    Args:
        context: The model and the inputs.
        findings: The findings by the name of the question.
    """
    if not context.inputs.real:
        line = "Inputs: random numbers, so not checked."
        return InputCheck(NOT_CHECKED, (line,), line, {}, ())
    watched = _watched_norms(context.model)
    outputs = _outputs(context, watched)
    predictions = _predictions(outputs, context.inputs.labels)
    norms = tuple(norm.facts() for norm in watched if norm.count)
    fresh = not norms and is_untrained(context.model)
    suspect = [*_norm_reasons(norms), *_constant_reasons(findings)]
    open_questions = []
    if predictions and not fresh:
        suspect = [*_prediction_reasons(predictions), *suspect]
    if fresh:
        open_questions.append("the weights are those of an initialisation")
    elif not predictions:
        open_questions.append("the model is no classifier of single inputs")
    elif predictions["inputs"] < ENOUGH:
        open_questions.append(f"{plural(predictions['inputs'], 'input')} are too few to tell")
    if suspect:
        line = f"The inputs are probably not prepared as in training: {joined(suspect)}."
        return InputCheck(SUSPECT, tuple(suspect), line, predictions, norms)
    if not norms:
        # Predictions of wrongly scaled images may well differ.
        open_questions.append("the model has no batch norm that remembers the inputs of training")
        line = f"Inputs not checked: {open_questions[0]}."
        return InputCheck(NOT_CHECKED, tuple(open_questions), line, predictions, norms)
    return InputCheck(PASSED, (), _passed_line(predictions, norms), predictions, norms)


def _passed_line(predictions: Mapping[str, Any], norms: tuple[dict[str, Any], ...]) -> str:
    parts = []
    if predictions:
        parts.append(
            f"{plural(predictions['inputs'], 'input')} give "
            f"{plural(predictions['classes'], 'different prediction')}; the most common class "
            f"comes up {plural(predictions['most_count'], 'time')}"
        )
    norm = norms[0]
    parts.append(
        f"activations before {norm['layer'] or 'the first batch norm'} vary "
        f"{norm['ratio']:.2g} times as much as in training"
    )
    return f"{'; '.join(parts)}."


def _watched_norms(model: nn.Module) -> list[_NormInputs]:
    """Return the batch norms that have seen training data."""
    watched = []
    for name, module in model.named_modules():
        if not isinstance(module, nn.modules.batchnorm._BatchNorm):
            continue
        if module.running_mean is None or module.running_var is None:
            continue
        fresh = not bool(module.running_mean.any()) and bool((module.running_var == 1).all())
        if not fresh:
            watched.append(_NormInputs(name, module))
    return watched


def _outputs(context: DiagnosisContext, watched: list[_NormInputs]) -> Tensor | None:
    """Run the model on some inputs, with watched norms; return rows of outputs, if it has some."""
    handles = [norm.norm.register_forward_pre_hook(norm) for norm in watched]
    rows: list[Tensor] = []
    try:
        with torch.no_grad():
            for batch in context.inputs.first_batches(INPUTS):
                output = context.run(batch)
                if isinstance(output, Tensor) and output.dim() == 2 and output.is_floating_point():
                    rows.append(output.cpu())
    finally:
        for handle in handles:
            handle.remove()
    same = len({row.shape[1] for row in rows}) == 1
    return torch.cat(rows) if same and rows[0].shape[1] > 1 else None


def _predictions(outputs: Tensor | None, labels: Tensor | None) -> dict[str, Any]:
    """Count the predictions, if the outputs are scores of classes."""
    if outputs is None or not bool(outputs.isfinite().all()):
        return {}
    counts = Counter(outputs.argmax(1).tolist())
    most, most_count = counts.most_common(1)[0]
    facts: dict[str, Any] = {
        "inputs": len(outputs),
        "outputs": outputs.shape[1],
        "classes": len(counts),
        "most": most,
        "most_count": most_count,
        "label_share": None,
    }
    if labels is not None:
        share = labels[: len(outputs)].bincount().max() / len(outputs)
        facts["label_share"] = float(share)
    return facts


def _prediction_reasons(facts: Mapping[str, Any]) -> list[str]:
    """Return a reason if most inputs get one prediction, and do not have one label."""
    count = facts["inputs"]
    share = facts["most_count"] / count
    limit = AGREE["many"] if facts["outputs"] >= MANY else AGREE["few"]
    if facts["outputs"] == 2:
        limit = 1.0
    if facts["label_share"] is not None and share < facts["label_share"] + MORE:
        return []  # the inputs themselves are of few classes
    enough = count >= (2 * ENOUGH if facts["outputs"] == 2 else ENOUGH)
    if not enough or share < limit:
        return []
    return [f"{facts['most_count']} of {count} predictions are the same class ({facts['most']})"]


def _norm_reasons(norms: tuple[dict[str, Any], ...]) -> list[str]:
    """Return a reason if activations are out of the range that the batch norms saw in training."""
    if not norms:
        return []
    ratios = sorted(norm["ratio"] for norm in norms)
    shifts = sorted(norm["shift"] for norm in norms)
    middle = {"layer": "half of the batch norms", "ratio": ratios[len(ratios) // 2]}
    middle["shift"] = shifts[len(shifts) // 2]
    for norm in (norms[0], middle):
        if norm["shift"] > SHIFT:
            return [
                f"the mean before {norm['layer']} is {norm['shift']:.2g} deviations from that of "
                "training"
            ]
        if not 1 / RATIO < norm["ratio"] < RATIO:
            return [
                f"activations before {norm['layer']} vary {norm['ratio']:.2g} times as much as in "
                "training"
            ]
    return []


def _constant_reasons(findings: Mapping[str, Any]) -> list[str]:
    """Return a reason if the outputs of most channels are constant over the inputs."""
    if "gates" not in findings:
        return []
    facts = findings["gates"].facts
    counts = gate_counts(facts["sites"])
    if facts["inputs"] < ENOUGH or counts.constant <= CONSTANT * counts.channels:
        return []
    return [f"{counts.constant:,} of {counts.channels:,} channels never change"]


def is_untrained(model: nn.Module) -> bool:
    """Whether the weights are those of an initialisation: training changes every norm."""
    return _has_fresh_norms(model) or _has_initial_weights(model)


def _has_fresh_norms(model: nn.Module) -> bool:
    """Whether there are trainable norms, and all scale and shift as one is made."""
    seen = False
    for module in model.modules():
        weight = getattr(module, "weight", None)
        named_norm = "norm" in type(module).__name__.lower()
        if not named_norm or not isinstance(weight, Tensor) or weight.dim() != 1:
            continue
        bias = getattr(module, "bias", None)
        shifted = isinstance(bias, Tensor) and bool(bias.any())
        # Some networks start a norm at 0, or all at one small number.
        if shifted or not bool((weight == weight[0]).all()):
            return False
        seen = True
    return seen


def _has_initial_weights(model: nn.Module) -> bool:
    """Whether all weights are within the bounds of PyTorch's initialisation, and fill them."""
    seen = False
    for module in model.modules():
        if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
            continue
        fan_in = module.weight[0].numel()
        share = float(module.weight.detach().abs().max()) * fan_in**0.5
        if share > 1 + 1e-4 or (module.weight.numel() > 100 and share < UNTRAINED):
            return False
        seen = True
    return seen
