"""Re-export of :mod:`gatewise.surgery.calls.call_units`."""

from gatewise.surgery.calls.call_units import CallUnits as CallUnits
