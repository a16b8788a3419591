"""Change a model: parameters, modules, classes with rewritten methods; and change it back."""

from gatewise.surgery.rewrite.checkpoint import LoadOriginal as LoadOriginal
from gatewise.surgery.rewrite.checkpoint import LoadStep as LoadStep
from gatewise.surgery.rewrite.checkpoint import negative_weight as negative_weight
from gatewise.surgery.rewrite.checkpoint import state_shapes as state_shapes
from gatewise.surgery.rewrite.classes import base_and_recipe as base_and_recipe
from gatewise.surgery.rewrite.classes import rewritten_class as rewritten_class
from gatewise.surgery.rewrite.optimizer import carry_over as carry_over
from gatewise.surgery.rewrite.optimizer import check_carried as check_carried
from gatewise.surgery.rewrite.optimizer import check_optimizer as check_optimizer
from gatewise.surgery.rewrite.optimizer import give_back as give_back
from gatewise.surgery.rewrite.placement import Placement as Placement
from gatewise.surgery.rewrite.placement import no_fast_path as no_fast_path
from gatewise.surgery.rewrite.placement import place_units as place_units
from gatewise.surgery.rewrite.rewriting import OwnerChange as OwnerChange
from gatewise.surgery.rewrite.rewriting import Undo as Undo
from gatewise.surgery.rewrite.rewriting import make_changes as make_changes
from gatewise.surgery.rewrite.rewriting import owner_of as owner_of
from gatewise.surgery.rewrite.rewriting import planned as planned
from gatewise.surgery.rewrite.rewriting import restore_calls as restore_calls
from gatewise.surgery.rewrite.rewriting import rewrite_calls as rewrite_calls
from gatewise.surgery.rewrite.shallow_copies import shallow_copy as shallow_copy
from gatewise.surgery.rewrite.shallow_copies import (
    without_parametrizations as without_parametrizations,
)
from gatewise.surgery.rewrite.source_edits import CallEdit as CallEdit
from gatewise.surgery.rewrite.transaction import DEPLOYED as DEPLOYED
from gatewise.surgery.rewrite.transaction import RECORD as RECORD
from gatewise.surgery.rewrite.transaction import Change as Change
from gatewise.surgery.rewrite.transaction import RewrittenCalls as RewrittenCalls
from gatewise.surgery.rewrite.transaction import SwapRecord as SwapRecord
from gatewise.surgery.rewrite.transaction import Transaction as Transaction
from gatewise.surgery.rewrite.transaction import apply_edits as apply_edits
from gatewise.surgery.rewrite.transaction import by_name as by_name
from gatewise.surgery.rewrite.transaction import check_not_swapped as check_not_swapped
from gatewise.surgery.rewrite.transaction import names_of_tensors as names_of_tensors
