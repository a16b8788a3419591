"""Makes shared helpers and the simulated disc importable, however pytest was started."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "crash"))
