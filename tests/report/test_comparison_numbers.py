"""The page says what the files say.

Every figure in it is recomputed here from ``cells/*/cell.json``.

Nothing of the report or of the studies is used for that: only json, numpy and scipy, and the
definitions in the docs.
"""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from report.made_study import BACKBONES, UNITS, made_study, write_study
from report.parsed import Node, number, parse, rows
from scipy import stats

from gatewise.report.comparison import comparison_page

OTHERS = UNITS[1:]
COSTS = {
    "parameters": "parameters",
    "FLOPs": "flops",
    "saved bytes": "saved_bytes",
    "seconds": "seconds",
}


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> Path:
    return write_study(tmp_path_factory.mktemp("study") / "made", made_study())


@pytest.fixture(scope="module")
def page(study) -> Node:
    content = json.loads((study / "study.json").read_text())
    content["records"] = list(raw(study))
    return parse(comparison_page(content))


def raw(folder: Path):
    return (json.loads(path.read_text()) for path in sorted(folder.glob("cells/*/cell.json")))


class Truth:
    """The numbers of one backbone, from the files."""

    def __init__(self, folder: Path, backbone: str) -> None:
        self.done = [
            r for r in raw(folder) if r["backbone"] == backbone and r["status"] == "finished"
        ]
        self.values = {
            u: {r["seed"]: r["metrics"]["test_accuracy"] for r in self.of(u)} for u in UNITS
        }
        self.gaps = {u: self.paired(u, self.values) for u in OTHERS}
        self.diverged = {
            (r["unit"], r["seed"])
            for r in raw(folder)
            if r["backbone"] == backbone and r["status"] == "diverged"
        }
        self.p_flips = {u: sign_flip_p(g) for u, g in self.gaps.items()}

    def of(self, unit: str) -> list[dict]:
        return [r for r in self.done if r["unit"] == unit]

    @staticmethod
    def paired(unit: str, values: dict) -> np.ndarray:
        ours, base = values[unit], values["relu"]
        return np.array([ours[s] - base[s] for s in sorted(ours) if s in base])

    def tests(self, unit: str) -> list[np.ndarray]:
        """The pairs that are left and, if a run diverged, those with it at the worst value."""
        gaps = [self.gaps[unit]]
        lost = {seed for name, seed in self.diverged if name == unit}
        if lost:
            worst = min(min(by_seed.values()) for by_seed in self.values.values())
            filled = self.values[unit] | dict.fromkeys(lost, worst)
            gaps.append(self.paired(unit, self.values | {unit: filled}))
        return gaps

    def interval(self, unit: str, level: float = 1 - 0.05 / 7) -> tuple[float, float]:
        ends = []
        for gap in self.tests(unit):
            half = stats.t.ppf((1 + level) / 2, len(gap) - 1) * stats.sem(gap)
            ends.append((100 * (gap.mean() - half), 100 * (gap.mean() + half)))
        return min(low for low, _ in ends), max(high for _, high in ends)

    def ahead(self, one: str, other: str, pairs: int = 28) -> bool:
        """Whether the pair's own differences show it, at the level of all pairs."""
        lost = {seed for name, seed in self.diverged if name in (one, other)}
        tests = [self.values]
        if lost:
            both = [v for u in (one, other) for v in self.values[u].values()]
            filled = {u: dict(by_seed) for u, by_seed in self.values.items()}
            for name, seed in self.diverged:
                filled[name][seed] = min(both)
            tests.append(filled)
        lows = []
        for values in tests:
            gap = [v - values[other][s] for s, v in values[one].items() if s in values[other]]
            half = stats.t.ppf(1 - 0.025 / pairs, len(gap) - 1) * stats.sem(gap)
            lows.append(np.mean(gap) - half)
        return min(lows) > 0

    def p(self, unit: str) -> float:
        sides = []
        for side in ("greater", "less"):
            tests = [stats.ttest_1samp(g, 0, alternative=side).pvalue for g in self.tests(unit)]
            sides.append(max(tests))
        return min(1.0, 2 * min(sides))

    def p_corrected(self, unit: str) -> float:
        return min(1.0, 7 * self.p(unit))

    def mean(self, unit: str) -> float:
        return 100 * float(np.mean(self.gaps[unit]))

    def verdict(self, unit: str) -> str:
        low, high = self.interval(unit)
        if low <= 0 <= high:
            return "undecided"
        return "better" if low > 0 else "worse"

    def cost(self, unit: str, what: str) -> float:
        costs = [r[what] for r in self.of(unit)]
        return min(costs) if what == "seconds" else float(np.mean(costs))

    def ratio(self, unit: str, what: str) -> float:
        return self.cost(unit, what) / self.cost("relu", what)


def sign_flip_p(gap: np.ndarray) -> float:
    """By looking at every pattern of signs.

    Sums are compared in whole numbers of a 10^12th, so that ties are ties.
    """
    whole = np.rint(gap * 1e12).astype(np.int64)
    seen = abs(int(whole.sum()))
    sums = [
        abs(int(np.dot(signs, whole))) for signs in itertools.product((-1, 1), repeat=len(whole))
    ]
    return float(np.mean([s >= seen - len(whole) for s in sums]))


@pytest.fixture(scope="module")
def truths(study) -> dict[str, Truth]:
    return {backbone: Truth(study, backbone) for backbone in BACKBONES}


def table(page: Node, label: str) -> list[dict[str, Node]]:
    return rows(next(t for t in page.all("table") if label in t.attributes.get("aria-label", "")))


def said(cell: Node, digits: int = 2) -> float:
    """What a cell shows, which must be what it holds in full, rounded."""
    shown = 0.0005 if cell.text == "< 0.001" else number(cell.text)
    assert float(cell.attributes["data-value"]) == pytest.approx(shown, abs=0.501 * 10**-digits)
    return float(cell.attributes["data-value"])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_paired_table(page, truths, backbone):
    truth, found = truths[backbone], table(page, f"{backbone}: test accuracy in %")
    assert [row["unit"].text for row in found] == ["relu", *sorted(OTHERS, key=truth.mean)[::-1]]
    for row in found:
        unit = row["unit"].text
        values = list(truth.values[unit].values())
        assert said(row["mean"]) == pytest.approx(100 * np.mean(values), rel=1e-12)
        assert said(row["spread"]) == pytest.approx(100 * np.std(values, ddof=1), rel=1e-9)
        lost = sum(name == unit for name, _ in truth.diverged)
        assert number(row["diverged"].text) == lost
        if unit == "relu":
            assert number(row["n"].text) == len(values)
            continue
        assert number(row["n"].text) == len(truth.gaps[unit])
        assert said(row["difference"]) == pytest.approx(truth.mean(unit), rel=1e-9)
        low, high = (number(t) for t in row["interval"].text.strip("[]").split(", "))
        assert (low, high) == tuple(round(edge, 2) for edge in truth.interval(unit))
        assert full(row["interval low"], row["interval high"]) == pytest.approx(
            truth.interval(unit), rel=1e-9
        )
        alone = "at 95 % alone (not corrected)"
        assert full(row[f"low end {alone}"], row[f"high end {alone}"]) == pytest.approx(
            truth.interval(unit, 0.95), rel=1e-9
        )
        assert full(row["level of the interval"]) == pytest.approx([1 - 0.05 / 7])
        assert said(row["p (corrected)"], 3) == pytest.approx(truth.p_corrected(unit), rel=1e-6)
        assert full(row["p (not corrected)"]) == pytest.approx([truth.p(unit)], rel=1e-6)
        assert full(row["p by sign flips"]) == [truth.p_flips[unit]]
        assert row["verdict"].text.split(":")[0] == truth.verdict(unit)


def full(*cells: Node) -> list[float]:
    """The numbers of hidden columns, which only a copy as CSV has."""
    assert all("hidden" in cell.attributes for cell in cells)
    return [float(cell.attributes["data-value"]) for cell in cells]


def forest(page: Node, backbone: str) -> Node:
    return next(
        f for f in page.all("figure", "forest") if f.one("figcaption").text.startswith(backbone)
    )


def along(axis: Node, at: str) -> float:
    """The value at a place in the field of 1000."""
    low, high = float(axis.attributes["data-low"]), float(axis.attributes["data-high"])
    return low + float(at) / 1000 * (high - low)


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else "1" if p == 1 else f"{p:.3f}"


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_forest_plot(page, truths, backbone):
    truth, drawn = truths[backbone], forest(page, backbone)
    axis = drawn.one("svg", "axis", "across")
    step = (
        (float(axis.attributes["data-high"]) - float(axis.attributes["data-low"])) / 1000 * 0.006
    )  # 2 digits kept
    body = drawn.one("tbody").all("tr")
    assert [r.one("th").text for r in body] == sorted(OTHERS, key=truth.mean, reverse=True)
    for row in body:
        unit = row.one("th").text
        dots = [
            along(axis, re.match(r"M([-\d.e]+) ", d.attributes["d"])[1])
            for d in row.all("path", "seed")
        ]
        assert dots == pytest.approx(100 * truth.gaps[unit], abs=step)
        low, high = re.match(
            r"M([-\d.e]+) 500H([-\d.e]+)", row.one("path", "interval").attributes["d"]
        ).groups()
        assert (along(axis, low), along(axis, high)) == pytest.approx(
            truth.interval(unit), abs=step
        )
        point = re.match(r"M([-\d.e]+) 500h0", row.one("path", "point").attributes["d"])[1]
        assert along(axis, point) == pytest.approx(truth.mean(unit), abs=step)
        figures = [
            number(t)
            for t in re.findall(r"[+\N{MINUS SIGN}]?[\d.]+", row.one("td", "figures").text)
        ]
        assert figures == [round(v, 2) for v in (truth.mean(unit), *truth.interval(unit))]
        p = row.one("td", "p").text.removeprefix("p ")
        assert p == p_text(truth.p_corrected(unit))
        colour = {"better": "c-up", "worse": "c-down"}.get(truth.verdict(unit), "c-flat")
        assert colour in row.classes


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_cost_table(page, truths, backbone):
    for row in table(page, f"{backbone}: parameters"):
        unit = row["unit"].text
        for place, (column, what) in enumerate(COSTS.items()):
            held = float(row[column].attributes["data-value"])
            assert held == pytest.approx(truths[backbone].cost(unit, what), rel=1e-12)
            assert number(row[column].text) == pytest.approx(
                held, rel=5e-3 if what == "seconds" else 1e-12, abs=0.5
            )
            ratio = said(row["×" if place == 0 else f"×{place + 1}"])
            assert ratio == pytest.approx(truths[backbone].ratio(unit, what), rel=1e-12)


def charts(page: Node, backbone: str, title: str) -> Node:
    """The chart of that title in the panels of the backbone."""
    found = [
        p
        for p in page.all("section", "panels")
        if p.one("p", "panels-about").text.startswith(backbone)
    ]
    figures = [f for p in found for f in p.all("figure", "plot")]
    return next(f for f in figures if f.one("figcaption").one("b").text == title)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("words, what", [("time", "seconds"), ("FLOPs", "flops")])
def test_the_cost_charts(page, truths, backbone, words, what):
    truth, figure = truths[backbone], charts(page, backbone, f"Against {words}")
    x, y = figure.one("svg", "axis", "across"), figure.one("svg", "axis", "up")
    near_x, near_y = (
        0.006 / 1000 * (float(a.attributes["data-high"]) - float(a.attributes["data-low"]))
        for a in (x, y)
    )
    seen = set()
    for series in figure.all("g", "series"):
        ends = re.findall(
            r"M[-\d.e]+ ([-\d.e]+)V([-\d.e]+)",
            "".join(w.attributes["d"] for w in series.all("path", "whisker")),
        )
        for i, dot in enumerate(series.all("path", "dot")):
            unit = dot.text.split(":")[0]
            left, top = re.match(r"M([-\d.e]+) ([-\d.e]+)h0", dot.attributes["d"]).groups()
            assert along(x, left) == pytest.approx(truth.ratio(unit, what), abs=near_x)
            gap = truth.mean(unit) if unit != "relu" else 0.0
            assert along(y, str(1000 - float(top))) == pytest.approx(gap, abs=near_y)
            if unit != "relu":
                edges = sorted(along(y, str(1000 - float(edge))) for edge in ends[i])
                assert edges == pytest.approx(truth.interval(unit), abs=near_y)
            seen.add(unit)
    assert seen == set(UNITS)
    costs = {u: truth.ratio(u, what) for u in OTHERS} | {"relu": 1.0}
    kept = [
        u
        for u in UNITS
        if not any(costs[o] <= costs[u] and truth.ahead(o, u) for o in UNITS if o != u)
    ]
    words = figure.one("figcaption").text
    listed = words.split("lower cost: ")[1].split(" (each pair tested")[0].split(", ")
    assert sorted(listed) == sorted(kept)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("key, factor", [("test_accuracy", 100.0), ("train_loss", 1.0)])
def test_the_learning_curves(page, truths, backbone, key, factor):
    found = [
        p
        for p in page.all("section", "panels")
        if p.one("p", "panels-about").text.startswith(backbone)
    ]
    words = "test accuracy in % by epoch" if factor != 1 else "training loss by epoch"
    panel = next(p for p in found if words in p.one("p", "panels-about").text)
    figures = {f.one("figcaption").one("b").text: f for f in panel.all("figure", "plot")}
    assert set(figures) == set(OTHERS)
    for unit, figure in figures.items():
        x, y = figure.one("svg", "axis", "across"), figure.one("svg", "axis", "up")
        near = 0.006 / 1000 * (float(y.attributes["data-high"]) - float(y.attributes["data-low"]))
        for name, series in zip(("relu", unit), figure.all("g", "series"), strict=True):
            curves = [
                {e["epoch"]: e[key] for e in r["curve"] if key in e}
                for r in truths[backbone].of(name)
            ]
            epochs = sorted(curves[0])
            values = factor * np.array([[c[e] for e in epochs] for c in curves])
            mean, spread = values.mean(0), values.std(0, ddof=1)
            points = re.findall(
                r"[ML]([-\d.e]+) ([-\d.e]+)", series.one("path", "drawn").attributes["d"]
            )
            assert [along(x, a) for a, _ in points] == pytest.approx(epochs, abs=0.01)
            assert [along(y, str(1000 - float(b))) for _, b in points] == pytest.approx(
                mean.tolist(), abs=near
            )
            edge = re.findall(
                r"[ML]([-\d.e]+) ([-\d.e]+)", series.one("path", "band").attributes["d"]
            )
            heights = [along(y, str(1000 - float(b))) for _, b in edge]
            assert heights == pytest.approx([*(mean + spread), *(mean - spread)[::-1]], abs=near)


def test_two_backbones_are_too_few_for_ranks(page):
    assert "mean rank" not in page.text and "Nemenyi" not in page.text


@pytest.mark.parametrize("backbone", BACKBONES)
def test_what_would_have_been_found_and_the_seeds_needed(page, truths, backbone):
    """Search the smallest number of seeds whose t-test has a power of 0.8 at the shared level."""
    truth = truths[backbone]
    found = table(page, f"{backbone}: undecided units")
    assert {row["unit"].text for row in found} == {
        u for u in OTHERS if truth.verdict(u) == "undecided"
    }
    for row in found:
        gap = 100 * truth.gaps[row["unit"].text]
        spread = float(np.std(gap, ddof=1))
        smallest = float(row["found four times in five"].attributes["data-value"])
        assert power(len(gap), smallest, spread) == pytest.approx(0.8, abs=1e-3)
        half = float(row["half of that"].attributes["data-value"])
        assert half == pytest.approx(smallest / 2)
        expected, safe = map(int, re.findall(r"\d+", row["seeds to find half of that"].text))
        assert power(expected, half, spread) >= 0.8 > power(expected - 1, half, spread)
        upper = spread * math.sqrt((len(gap) - 1) / stats.chi2.ppf(0.2, len(gap) - 1))
        assert power(safe, half, upper) >= 0.8 > power(safe - 1, half, upper)


def power(n: int, effect: float, spread: float) -> float:
    return float(
        stats.nct.sf(stats.t.ppf(1 - 0.05 / 7 / 2, n - 1), n - 1, effect / spread * math.sqrt(n))
    )


def test_every_run_is_listed_with_its_numbers(page, study):
    records = {r["key"]: r for r in raw(study)}
    planned = json.loads((study / "study.json").read_text())["cells"]
    found = next(
        rows(t) for t in page.all("table") if t.one("thead").all("th")[-1].text == "folder"
    )
    assert [row["folder"].text for row in found] == [cell["key"] for cell in planned]
    for row, cell in zip(found, planned, strict=True):
        record = records.get(cell["key"])
        assert (row["unit"].text, row["backbone"].text, row["seed"].text) == (
            cell["unit"],
            cell["backbone"],
            str(cell["seed"]),
        )
        assert row["status"].text == (record["status"] if record else "not run")
        if record and record["metrics"]:
            assert said(row["test accuracy in %"]) == 100 * record["metrics"]["test_accuracy"]
            assert float(row["seconds"].attributes["data-value"]) == record["seconds"]
        if record:
            assert row["folder"].one("a").attributes["href"] == f"cells/{cell['key']}/"
            assert (study / row["folder"].one("a").attributes["href"] / "cell.json").exists()


def test_the_answer_names_just_what_differs_and_by_how_much(page, truths):
    lines = page.one("div", "answer").all("p")
    assert lines[0].text == (
        "Not tuned: every unit was trained with learning rate 3e-3. "
        "At other rates the order can differ."
    )
    for line, backbone in zip(lines[1:], BACKBONES, strict=False):
        truth = truths[backbone]
        assert line.text.startswith(f"{backbone}:")
        for verdict, look in (("better", "up"), ("worse", "down")):
            named = [bold.text.rsplit(" ", 1) for bold in line.all("b", look)]
            assert {n: number(v) for n, v in named} == {
                u: round(truth.mean(u), 2) for u in OTHERS if truth.verdict(u) == verdict
            }
        flat = {u for u in OTHERS if truth.verdict(u) == "undecided"}
        said_flat = re.findall(r"Undecided(?: \([^)]*\))?: ([^.]*)\.", line.text)
        assert {name for names in said_flat for name in re.split(", | and ", names)} == flat
    further = [p.text for p in page.all("p")]
    cost = next(text for text in further if text.startswith("At what cost"))
    for unit in OTHERS:
        ratios = [truths[b].ratio(unit, "seconds") for b in BACKBONES]
        differs = any(truths[b].verdict(unit) in ("better", "worse") for b in BACKBONES)
        if differs and any(not 1 / 1.05 <= ratio <= 1.05 for ratio in ratios):
            assert f"{unit} {span(ratios)}" in cost
        else:
            assert f"{unit} " not in cost
    for words, what in (("FLOPs", "flops"), ("parameters", "parameters")):
        ratios = [truths[b].ratio(u, what) for b in BACKBONES for u in UNITS]
        assert f"{words} {span(ratios)} for all units" in cost
    sure = next(text for text in further if text.startswith("How certain"))
    assert "99.3 % each, 95 % for all 7" in sure and "at most 5 % for each of 2 blocks" in sure


def span(ratios: list[float]) -> str:
    shown = sorted({f"{ratio:.2f}" for ratio in ratios}, key=float)
    return "–".join(dict.fromkeys((shown[0], shown[-1]))) + "×"


def test_what_was_not_equal_has_the_right_numbers(page, truths):
    points = {line.text.split(":")[0]: line.text for line in page.all("ul", "how")[-1].all("li")}
    for name, what in (("Time", "seconds"), ("FLOPs", "flops"), ("Saved bytes", "saved_bytes")):
        for backbone in BACKBONES:
            for unit in OTHERS:
                ratio = truths[backbone].ratio(unit, what)
                assert (f"{unit} {ratio:.2f}×" in points[name]) == (abs(ratio - 1) > 0.02)
    assert points["Parameters"] == "Parameters: all within 2 % of relu’s."


def test_a_wrong_number_would_be_seen(study, truths):
    """The control: one accuracy changed in what the page is made from, and not in the files."""
    content = json.loads((study / "study.json").read_text())
    content["records"] = [json.loads(json.dumps(r)) for r in raw(study)]
    changed = next(
        r for r in content["records"] if r["unit"] == "swish" and r["status"] == "finished"
    )
    changed["metrics"]["test_accuracy"] -= 0.001
    wrong = parse(comparison_page(content))
    with pytest.raises(AssertionError):
        test_the_paired_table(wrong, truths, changed["backbone"])
    with pytest.raises(AssertionError):
        test_the_forest_plot(wrong, truths, changed["backbone"])
