"""Questions asked of any model, one file each."""

from gatewise.analysis.ntk import ntk as ntk
from gatewise.analysis.ntk import ntk_routes as ntk_routes

__all__ = ["ntk", "ntk_routes"]
