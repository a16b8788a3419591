"""The question how far the tensors at activations reach, and what it costs to clamp them."""

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.gating import Tails, tails
from gatewise.words import number, percentage


def _answer(context: DiagnosisContext) -> Finding:
    """Measure quantiles at all activations, and run the model with clamps."""
    context.check_gates()
    result = tails(
        context.model, context.inputs.pairs, seconds=context.seconds, progress=context.progress
    )
    facts = {
        "loss": result.loss,
        "branches": [each.to_dict() for each in result.branches],
        "clamps": [each.to_dict() for each in result.costs],
        "notes": list(result.notes),
    }
    return Finding(_line(result), facts, result)


def _line(result: Tails) -> str:
    """Return how far the farthest tensor reaches, and the cost of each clamp everywhere."""
    far = max(result.branches, key=lambda each: max(-each.least, each.most))
    parts = [f"The largest magnitude is {number(max(-far.least, far.most))}, the {far.branch} at "]
    parts.append(f"{far.site}. ")
    limits = list(far.outside)
    everywhere = {each.limit: each for each in result.costs[: len(limits)]}
    for limit in limits:
        if limit not in everywhere:
            parts.append(f"A clamp at {limit:g} would change nothing. ")
        else:
            share = max(each.outside[limit] for each in result.branches)
            parts.append(f"Up to {percentage(share)} of a tensor is beyond {limit:g}; a clamp ")
            parts.append(f"there costs {everywhere[limit].cost}. ")
    return "".join(parts).rstrip()


TAILS = Question("tails", "How far do pre-activations reach, and what would a clamp cost?", _answer)
