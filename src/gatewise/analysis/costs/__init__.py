"""What a model costs in parameters, operations, time and memory."""

from gatewise.analysis.costs.measured import Cost as Cost
from gatewise.analysis.costs.measured import SiteCost as SiteCost
from gatewise.analysis.costs.measured import cost as cost
