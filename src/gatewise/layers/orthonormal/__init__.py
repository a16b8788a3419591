"""Layers with orthonormal filters, and a penalty that favours them."""

from gatewise.layers.orthonormal.filters import as_rows as as_rows
from gatewise.layers.orthonormal.filters import filter_groups as filter_groups
from gatewise.layers.orthonormal.gram_schmidt_forms import METHODS as METHODS
from gatewise.layers.orthonormal.parametrization import OrthonormalFilters as OrthonormalFilters
from gatewise.layers.orthonormal.parametrization import orthogonal as orthogonal
from gatewise.layers.orthonormal.penalty import orthogonality_penalty as orthogonality_penalty
from gatewise.layers.orthonormal.penalty import slope_overlap as slope_overlap
