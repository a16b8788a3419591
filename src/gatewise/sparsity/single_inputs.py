"""What a model is timed on: one whole input, or one more token of a text.

Note [What is timed]. A language model that writes a text computes one token at a time and keeps
what it needs of the others in a cache. So for a causal model the time of one token is measured, at
a position behind others, with the model's own cache. A model counts as causal if it returns a
cache, and computes with it the same scores as for the whole text. Every other model is timed on
whole inputs.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import scores_of
from gatewise.batches import ModelCall

INPUTS = 8  # that are timed
BEFORE = 64  # tokens before the one that is timed, where the text has as many
CLOSE = 1e-3  # scores with a cache from those of the whole text, relative to the largest
TOKENS = "input_ids"


@dataclass(frozen=True, eq=False)
class WholeInput:
    """One row of the data.

    Attributes:
        batch: the row.
    """

    batch: ModelCall

    def start(self, model: nn.Module) -> None:
        """Prepare nothing: the whole input is computed."""

    def run(self, model: nn.Module, state: None) -> Any:
        """Return what ``model`` returns."""
        return self.batch.run(model)

    @property
    def words(self) -> str:
        """What is timed."""
        return "one input"


@dataclass(frozen=True, eq=False)
class NextToken:
    """One token of a text, behind others whose keys and values are in a cache.

    Attributes:
        tokens: the text, (1, length). The last token is timed.
    """

    tokens: Tensor

    def start(self, model: nn.Module) -> Any:
        """Return the model's cache for all tokens but the last."""
        return model(**{TOKENS: self.tokens[:, :-1]}, use_cache=True).past_key_values

    def run(self, model: nn.Module, state: Any) -> Any:
        """Return what ``model`` returns for the last token.

        Args:
            model: the model.
            state: its cache, which grows.
        """
        last = self.tokens[:, -1:]
        return model(**{TOKENS: last}, past_key_values=state, use_cache=True)

    @property
    def words(self) -> str:
        """What is timed."""
        return f"one token at position {self.tokens.shape[1] - 1}, with a cache,"


SingleInput = WholeInput | NextToken


@torch.no_grad()
def single_inputs(model: nn.Module, batch: ModelCall) -> Sequence[SingleInput]:
    """Return inputs to time ``model`` on; none if it does not run on a single one.

    Args:
        model: in eval mode.
        batch: of the data.
    """
    tokens = _next_tokens(model, batch)
    if tokens:
        return tokens
    inputs = []
    for number in range(INPUTS):
        row = number % batch.size
        inputs.append(WholeInput(replace(batch.rows(row, row + 1), target_name="")))
    try:
        inputs[0].batch.run(model)
    except Exception:  # a model may need several rows
        return []
    return inputs


def _next_tokens(model: nn.Module, batch: ModelCall) -> list[NextToken]:
    """Return tokens of one text of the batch; none unless the model is causal and has a cache."""
    ids = batch.kwargs.get(TOKENS)
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.shape[1] <= INPUTS:
        return []
    first = min(BEFORE, ids.shape[1] - INPUTS)
    inputs = [NextToken(ids[:1, : first + number + 1]) for number in range(INPUTS)]
    return inputs if _follows_its_cache(model, inputs[0]) else []


def _follows_its_cache(model: nn.Module, token: NextToken) -> bool:
    """Return whether a model computes the same scores with a cache as without."""
    try:
        whole = scores_of(model(**{TOKENS: token.tokens}))
        state = token.start(model)
        scores = None if state is None else scores_of(token.run(model, copy.deepcopy(state)))
    except Exception:  # a model without a cache refuses the argument
        return False
    if scores is None or scores.dim() != 3 or scores.shape[1] != 1 or whole.dim() != 3:
        return False
    difference = (scores[:, -1] - whole[:, -1]).abs().max()
    return bool(difference <= CLOSE * whole[:, -1].abs().max().clamp(min=torch.finfo().tiny))
