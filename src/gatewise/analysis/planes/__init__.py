"""Propagate a partition of a plane through a network: polygons, and the affine map on each."""

from gatewise.analysis.planes.adjacency import adjacent as adjacent
from gatewise.analysis.planes.adjacency import shared_edges as shared_edges
from gatewise.analysis.planes.affine_rules import BATCH as BATCH
from gatewise.analysis.planes.composite import Composite as Composite
from gatewise.analysis.planes.composite import Composites as Composites
from gatewise.analysis.planes.line_splitting import split_by_lines as split_by_lines
from gatewise.analysis.planes.native_splitting import native_splitter as native_splitter
from gatewise.analysis.planes.piece_splitting import split_by_pieces as split_by_pieces
from gatewise.analysis.planes.plane_run import PlaneRun as PlaneRun
from gatewise.analysis.planes.plane_slice import Extent as Extent
from gatewise.analysis.planes.plane_slice import Slice as Slice
from gatewise.analysis.planes.plane_slice import slice_through as slice_through
from gatewise.analysis.planes.polygons import NO_LABEL as NO_LABEL
from gatewise.analysis.planes.polygons import Array as Array
from gatewise.analysis.planes.polygons import Polygons as Polygons
from gatewise.analysis.planes.polygons import rectangle as rectangle
from gatewise.analysis.planes.polygons import tolerance as tolerance
