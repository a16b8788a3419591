"""The question how much better a layer can fit random labels with CReLU than with ReLU."""

import torch
from torch import Tensor

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.words import layer_names
from gatewise.analysis.filters import rademacher
from gatewise.analysis.gating import GateSite, SiteStream
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import glu_of, holds_both_branches

INPUTS = 100
SAME = 0.05  # a ratio this close to 1 is called no difference


def _answer(context: DiagnosisContext) -> Finding:
    """Compute the Rademacher complexity of the first layer with ReLU and with CReLU."""
    context.check_gates()
    sites = [site for site in context.gates if context.layers_before(site)]
    if not sites:
        raise NotApplicableError(Limitation.NO_LAYER)
    # The theorem is about one response for each channel, which a gated linear unit has not.
    site = next((site for site in sites if not _is_gated(context, site)), None)
    if site is None:
        raise NotApplicableError(Limitation.UNSUPPORTED_UNIT, "all units are gated linear units")
    responses = _responses(context, site)
    if responses.shape[1] < 2:
        raise NotApplicableError(Limitation.TOO_FEW_INPUTS, "two are needed")
    result = rademacher(responses, width=len(responses))
    ratio = result.crelu / max(result.relu, 1e-300)
    layer = layer_names(context.layers_before(site))
    verdict = ": no difference" if abs(ratio - 1) < SAME else ""
    line = (
        f"With CReLU, {layer} could fit random labels {ratio:.2f} times as well as with "
        f"ReLU{verdict}. Its complexity is {result.crelu:.3g}; the bound is {result.bound:.3g}."
    )
    facts = result.to_dict() | {"site": site.name, "layer": layer, "ratio": ratio}
    return Finding(line, facts, result)


def _is_gated(context: DiagnosisContext, site: GateSite) -> bool:
    """Return whether a site is the gate of a gated linear unit."""
    return holds_both_branches(site.unit) or glu_of(site.response, site.output) is not None


def _responses(context: DiagnosisContext, wanted: GateSite) -> Tensor:
    """Return the responses (channels, inputs) before a unit, at the centre of an image."""
    found: list[Tensor] = []

    def keep(site: GateSite, response: Tensor) -> None:
        if site.name != wanted.name:
            return
        if response.dim() > 2:
            rows = response.movedim(site.dim, 1).flatten(2)
        else:
            rows = response.unsqueeze(-1)
        # One position for each input: the theorem is about independent samples.
        found.append(rows[:, :, rows.shape[2] // 2].T.double().cpu())

    stream = SiteStream("complexity", context.model)
    for batch in context.inputs.first_batches(INPUTS):
        stream.responses(batch, keep)
    return torch.cat(found, 1)[:, :INPUTS]


COMPLEXITY = Question("complexity", "How much more could the first layer fit with CReLU?", _answer)
