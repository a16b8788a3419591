"""Bind units to the layer before them: which layer it is, and where both are called."""

from gatewise.surgery.binding.additions import ADDITION as ADDITION
from gatewise.surgery.binding.additions import addition_sites as addition_sites
from gatewise.surgery.binding.additions import find_additions as find_additions
from gatewise.surgery.binding.bind import bind_calls as bind_calls
from gatewise.surgery.binding.bind import pair_calls as pair_calls
from gatewise.surgery.binding.bindings import Binding as Binding
from gatewise.surgery.binding.branches import Branch as Branch
from gatewise.surgery.binding.branches import branch_of as branch_of
from gatewise.surgery.binding.branches import branches_before as branches_before
from gatewise.surgery.binding.branches import is_sum as is_sum
from gatewise.surgery.binding.branches import operands_of as operands_of
from gatewise.surgery.binding.record import Recorded as Recorded
from gatewise.surgery.binding.record import record_bound as record_bound
