"""The linear regions of a network: exact partitions of a plane, and the affine map of a region."""

from gatewise.analysis.regions.exact_partition import Partition as Partition
from gatewise.analysis.regions.exact_partition import Region as Region
from gatewise.analysis.regions.exact_partition import SoftPartition as SoftPartition
from gatewise.analysis.regions.exact_partition import partition as partition
from gatewise.analysis.regions.frozen_gates import is_soft as is_soft
from gatewise.analysis.regions.local_affine import AffineMap as AffineMap
from gatewise.analysis.regions.local_affine import affine_map as affine_map
from gatewise.analysis.regions.training_film import Film as Film
from gatewise.analysis.regions.training_film import film as film
