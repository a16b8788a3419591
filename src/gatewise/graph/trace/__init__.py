"""Read a model as a graph of torch operators, by ``torch.export`` or by ``make_fx``."""

from gatewise.graph.trace.by_export import read_by_export as read_by_export
from gatewise.graph.trace.by_make_fx import read_by_tracing as read_by_tracing
from gatewise.graph.trace.caching import cached_readings as cached_readings
from gatewise.graph.trace.example import Example as Example
from gatewise.graph.trace.example import check_dense as check_dense
from gatewise.graph.trace.example import check_runs as check_runs
from gatewise.graph.trace.example import does_not_fit as does_not_fit
from gatewise.graph.trace.example import example_tensors as example_tensors
from gatewise.graph.trace.example import split_example as split_example
from gatewise.graph.trace.locking import one_at_a_time as one_at_a_time
from gatewise.graph.trace.nodes import Graph as Graph
from gatewise.graph.trace.nodes import Node as Node
from gatewise.graph.trace.nodes import Scope as Scope
from gatewise.graph.trace.nodes import tensors_in as tensors_in
from gatewise.graph.trace.readable import check_readable as check_readable
