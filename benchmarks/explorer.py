"""Frames a second of the explorer while 8-8, 16-16 and 32-32 networks train with regions drawn.

    python benchmarks/explorer.py         # some 20 seconds; appends to results/explorer.csv

Needs Chromium. One row a width; ReLU against leaky ReLU, two training steps a frame.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from browser import Browser, settle  # noqa: E402
from kept import keep  # noqa: E402

SECONDS = 5.0


def frames_a_second(page: object, width: int) -> float:
    """Train from the first weights for some seconds and count the frames."""
    address = f"a=relu&b=leaky_relu,0.1&data=spiral&width={width}&seed=1&rate=0.01&step=20"
    page.evaluate(f"location.hash = '{address}'")
    settle(page, f"explorer.recipe().width === {width} && explorer.step() === 20", 60)
    page.evaluate("explorer.play(true)")
    before = page.evaluate("explorer.counters.draws")
    start = time.perf_counter()
    time.sleep(SECONDS)
    drawn = page.evaluate("explorer.counters.draws") - before
    elapsed = time.perf_counter() - start
    page.evaluate("explorer.play(false)")
    return drawn / elapsed


if __name__ == "__main__":
    with Browser() as browser:
        opened = browser.open(
            ROOT / "src/gatewise/report/explorer/explorer.html", width=1280, height=900
        )
        for each in (8, 16, 32):
            frames = f"{frames_a_second(opened, each):.0f}"
            keep("explorer", {"network": f"2-{each}-{each}-2", "frames_a_second": frames})
            print(f"2-{each}-{each}-2: {frames} frames a second")
