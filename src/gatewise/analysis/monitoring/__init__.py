"""Watch the gates of a model while it is trained."""

from gatewise.analysis.monitoring.gate_monitor import GateMonitor as GateMonitor
from gatewise.analysis.monitoring.site_activity import MonitorRecord as MonitorRecord
from gatewise.analysis.monitoring.site_activity import SiteActivity as SiteActivity
