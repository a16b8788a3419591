"""gatewise.analysis.costs."""

from gatewise.analysis.costs.measured import Cost as Cost
from gatewise.analysis.costs.measured import SiteCost as SiteCost
from gatewise.analysis.costs.measured import cost as cost
