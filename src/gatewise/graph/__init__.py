"""Read any model as a graph of operators, and find its activation sites.

Note [Reading]. A model is read by ``torch.export`` on an example, once in eval and once in train
mode, since some networks have parts that run in training only. A model whose control flow depends
on values is read by ``make_fx`` on real tensors. Nodes are torch's operators before decomposition.
Functional calls, calls in place and modules that are called several times are sites like any
other: nothing here relies on hooks of activation modules.
"""

from gatewise.graph.glu import Branch as Branch
from gatewise.graph.glu import Glu as Glu
from gatewise.graph.glu import glu_of as glu_of
from gatewise.graph.glu import holds_both_branches as holds_both_branches
from gatewise.graph.interpret import Interpreter as Interpreter
from gatewise.graph.interpret import Replace as Replace
from gatewise.graph.interpret import call_operator as call_operator
from gatewise.graph.interpret import filled as filled
from gatewise.graph.interpret import leaf_value as leaf_value
from gatewise.graph.interpret import replacing as replacing
from gatewise.graph.interpret import run_graph as run_graph
from gatewise.graph.operation_counts import node_operations as node_operations
from gatewise.graph.operation_counts import parameter_count as parameter_count
from gatewise.graph.operation_counts import whole_size as whole_size
from gatewise.graph.ops import ACTIVATIONS as ACTIVATIONS
from gatewise.graph.ops import BROADCAST as BROADCAST
from gatewise.graph.ops import CHANNEL_NORMS as CHANNEL_NORMS
from gatewise.graph.ops import CONVOLUTIONS as CONVOLUTIONS
from gatewise.graph.ops import CUTS as CUTS
from gatewise.graph.ops import ELEMENTWISE as ELEMENTWISE
from gatewise.graph.ops import GATES as GATES
from gatewise.graph.ops import GLUS as GLUS
from gatewise.graph.ops import LAST_NORMS as LAST_NORMS
from gatewise.graph.ops import LEAVES as LEAVES
from gatewise.graph.ops import LINEAR as LINEAR
from gatewise.graph.ops import MASKS as MASKS
from gatewise.graph.ops import MAX_POOLS as MAX_POOLS
from gatewise.graph.ops import MOVES as MOVES
from gatewise.graph.ops import OPERATORS as OPERATORS
from gatewise.graph.ops import POOLS as POOLS
from gatewise.graph.ops import PRODUCTS as PRODUCTS
from gatewise.graph.ops import REDUCTIONS as REDUCTIONS
from gatewise.graph.ops import REQUIRED as REQUIRED
from gatewise.graph.ops import RESHAPES as RESHAPES
from gatewise.graph.ops import SPATIAL as SPATIAL
from gatewise.graph.ops import SPLITS as SPLITS
from gatewise.graph.ops import SUMS as SUMS
from gatewise.graph.ops import TRANSPOSED as TRANSPOSED
from gatewise.graph.ops import Form as Form
from gatewise.graph.ops import Kind as Kind
from gatewise.graph.ops import Operator as Operator
from gatewise.graph.ops import Pieces as Pieces
from gatewise.graph.ops import Sign as Sign
from gatewise.graph.ops import get_operator as get_operator
from gatewise.graph.ops import is_activation as is_activation
from gatewise.graph.ops import operator_of_module as operator_of_module
from gatewise.graph.ops import operators_of as operators_of
from gatewise.graph.reading import Reading as Reading
from gatewise.graph.reading import SiteGraph as SiteGraph
from gatewise.graph.reading import find_sites as find_sites
from gatewise.graph.relations import consumers as consumers
from gatewise.graph.relations import producers as producers
from gatewise.graph.roles import POOLER as POOLER
from gatewise.graph.roles import ROLES as ROLES
from gatewise.graph.shapes import broadcast_dim as broadcast_dim
from gatewise.graph.shapes import group_of as group_of
from gatewise.graph.shapes import order_of as order_of
from gatewise.graph.signs import is_never_negative as is_never_negative
from gatewise.graph.sites import COMPOSITE as COMPOSITE
from gatewise.graph.sites import SQUARED_RELU as SQUARED_RELU
from gatewise.graph.sites import Site as Site
from gatewise.graph.sites import SiteNodes as SiteNodes
from gatewise.graph.sites import activation_sites as activation_sites
from gatewise.graph.trace import Example as Example
from gatewise.graph.trace import Graph as Graph
from gatewise.graph.trace import Node as Node
from gatewise.graph.trace import Scope as Scope
from gatewise.graph.trace import cached_readings as cached_readings
from gatewise.graph.trace import check_dense as check_dense
from gatewise.graph.trace import check_readable as check_readable
from gatewise.graph.trace import check_runs as check_runs
from gatewise.graph.trace import does_not_fit as does_not_fit
from gatewise.graph.trace import example_tensors as example_tensors
from gatewise.graph.trace import one_at_a_time as one_at_a_time
from gatewise.graph.trace import read_by_export as read_by_export
from gatewise.graph.trace import read_by_tracing as read_by_tracing
from gatewise.graph.trace import split_example as split_example
from gatewise.graph.trace import tensors_in as tensors_in
from gatewise.graph.unchanged import OWN_ATTRIBUTES as OWN_ATTRIBUTES
from gatewise.graph.unchanged import RandomState as RandomState
from gatewise.graph.unchanged import check_not_lazy as check_not_lazy
from gatewise.graph.unchanged import copied as copied
from gatewise.graph.unchanged import run_on_copies as run_on_copies
from gatewise.graph.unchanged import untouched as untouched
from gatewise.graph.written_activations import NOT_A_SITE as NOT_A_SITE
from gatewise.graph.written_activations import STARTS as STARTS
from gatewise.graph.written_activations import WrittenActivation as WrittenActivation
from gatewise.graph.written_activations import known_activations as known_activations
