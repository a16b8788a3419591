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
        self.gaps = {u: self.paired(u) for u in OTHERS}
        self.p = {u: sign_flip_p(g) for u, g in self.gaps.items()}
        self.p_holm = holm(self.p)

    def of(self, unit: str) -> list[dict]:
        return [r for r in self.done if r["unit"] == unit]

    def paired(self, unit: str) -> np.ndarray:
        ours, base = self.values[unit], self.values["relu"]
        return np.array([ours[s] - base[s] for s in sorted(ours) if s in base])

    def interval(self, unit: str) -> tuple[float, float]:
        gap = self.gaps[unit]
        found = stats.bootstrap(
            (gap,), np.mean, n_resamples=9999, rng=np.random.default_rng(0)
        ).confidence_interval
        return 100 * found.low, 100 * found.high

    def mean(self, unit: str) -> float:
        return 100 * float(np.mean(self.gaps[unit]))

    def verdict(self, unit: str) -> str:
        if self.p_holm[unit] > 0.05:
            return "no difference shown"
        return "better" if self.mean(unit) > 0 else "worse"

    def cost(self, unit: str, what: str) -> float:
        return float(np.mean([r[what] for r in self.of(unit)]))

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


def holm(p: dict[str, float]) -> dict[str, float]:
    ordered, found, worst = sorted(p, key=p.__getitem__), {}, 0.0
    for place, name in enumerate(ordered):
        worst = max(worst, min(1.0, (len(p) - place) * p[name]))
        found[name] = worst
    return found


@pytest.fixture(scope="module")
def truths(study) -> dict[str, Truth]:
    return {backbone: Truth(study, backbone) for backbone in BACKBONES}


def table(page: Node, label: str) -> list[dict[str, Node]]:
    return rows(next(t for t in page.all("table") if label in t.attributes.get("aria-label", "")))


def said(cell: Node, digits: int = 2) -> float:
    """What a cell shows, which must be what it holds in full, rounded."""
    assert f"{float(cell.attributes['data-value']):.{digits}f}" == f"{number(cell.text):.{digits}f}"
    return float(cell.attributes["data-value"])


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_paired_table(page, truths, backbone):
    truth, found = truths[backbone], table(page, f"{backbone}: test accuracy, points")
    assert [row["unit"].text for row in found] == list(UNITS)
    for row in found:
        unit = row["unit"].text
        paired = [v for s, v in truth.values[unit].items() if s in truth.values["relu"]]
        assert number(row["n"].text) == len(paired)
        assert said(row["mean"]) == pytest.approx(100 * np.mean(paired), rel=1e-12)
        assert said(row["spread"]) == pytest.approx(100 * np.std(paired, ddof=1), rel=1e-9)
        if unit == "relu":
            continue
        assert said(row["difference"]) == pytest.approx(truth.mean(unit), rel=1e-9)
        low, high = (number(t) for t in row["95 %"].text.strip("[]").split(", "))
        assert (low, high) == tuple(round(edge, 2) for edge in truth.interval(unit))
        assert said(row["p"], 3) == truth.p[unit]
        assert said(row["p (Holm)"], 3) == pytest.approx(truth.p_holm[unit], rel=1e-12)
        assert row["verdict"].text == truth.verdict(unit)


def forest(page: Node, backbone: str) -> Node:
    return next(
        f for f in page.all("figure", "forest") if f.one("figcaption").text.startswith(backbone)
    )


def along(axis: Node, at: str) -> float:
    """The value at a place in the field of 1000."""
    low, high = float(axis.attributes["data-low"]), float(axis.attributes["data-high"])
    return low + float(at) / 1000 * (high - low)


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
        assert number(row.one("td", "p").text.removeprefix("p ")) == round(truth.p_holm[unit], 3)
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
    spans = {u: (truth.ratio(u, what), *truth.interval(u)) for u in OTHERS} | {
        "relu": (1.0, 0.0, 0.0)
    }
    kept = [
        u
        for u, (c, _, h) in spans.items()
        if not any(oc <= c and low > h for oc, low, _ in spans.values())
    ]
    listed = (
        figure.one("figcaption").text.split("do not overlap, than: ")[1].rstrip(".").split(", ")
    )
    assert sorted(listed) == sorted(kept)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("key, factor", [("test_accuracy", 100.0), ("train_loss", 1.0)])
def test_the_learning_curves(page, truths, backbone, key, factor):
    found = [
        p
        for p in page.all("section", "panels")
        if p.one("p", "panels-about").text.startswith(backbone)
    ]
    words = "test accuracy, points by epoch" if factor != 1 else "training loss by epoch"
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


def test_the_ranks(page, truths):
    found = table(page, "Rank by mean")
    ranks = {
        b: stats.rankdata([-np.mean(list(truths[b].values[u].values())) for u in UNITS])
        for b in BACKBONES
    }
    for row in found:
        place = UNITS.index(row["unit"].text)
        mine = [float(ranks[b][place]) for b in BACKBONES]
        assert [number(row[b].text) for b in BACKBONES] == mine
        assert number(row["mean rank"].text) == pytest.approx(np.mean(mine))
    apart = stats.studentized_range.ppf(0.95, 8, np.inf) / math.sqrt(2) * math.sqrt(8 * 9 / (6 * 2))
    friedman = stats.friedmanchisquare(*np.array([ranks[b] for b in BACKBONES]).T).pvalue
    words = page.text
    assert (
        f"must be {apart:.3g} apart to differ" in words and f"Friedman’s p {friedman:.3f}" in words
    )


@pytest.mark.parametrize("backbone", BACKBONES)
def test_the_seeds_needed(page, truths, backbone):
    """Search the smallest number of seeds whose t-test has a power of 0.8 at the shared level."""
    for row in table(page, f"{backbone}: seeds needed"):
        gap = 100 * truths[backbone].gaps[row["unit"].text]
        spread = float(np.std(gap, ddof=1))
        assert said(row["spread of differences"]) == pytest.approx(spread, rel=1e-9)
        wanted = {
            "to show 1 points": 1.0,
            "to show 0.5 points": 0.5,
            "to show the measured one": abs(gap.mean()),
        }
        for column, effect in wanted.items():
            seeds = int(number(row[column].text))
            assert power(seeds, effect, spread) >= 0.8
            assert seeds == 3 or power(seeds - 1, effect, spread) < 0.8


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
            assert said(row["test accuracy, points"]) == 100 * record["metrics"]["test_accuracy"]
            assert float(row["seconds"].attributes["data-value"]) == record["seconds"]
        if record:
            assert row["folder"].one("a").attributes["href"] == f"cells/{cell['key']}/"
            assert (study / row["folder"].one("a").attributes["href"] / "cell.json").exists()


def test_the_answer_names_just_what_differs_and_by_how_much(page, truths):
    lines = page.one("div", "answer").all("p")
    for line, backbone in zip(lines, BACKBONES, strict=False):
        truth = truths[backbone]
        assert line.text.startswith(f"{backbone}:")
        for verdict, look in (("better", "up"), ("worse", "down")):
            named = [bold.text.rsplit(" ", 1) for bold in line.all("b", look)]
            assert {n: number(v) for n, v in named} == {
                u: round(truth.mean(u), 2) for u in OTHERS if truth.verdict(u) == verdict
            }
        flat = [u for u in OTHERS if truth.verdict(u) == "no difference shown"]
        assert f"No difference shown: {', '.join(flat)}." in line.text
    cost = next(line.text for line in lines if line.text.startswith("At what cost"))
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
    sure = next(line.text for line in lines if line.text.startswith("How certain"))
    for backbone in BACKBONES:
        said_there = float(re.search(rf"([\d.]+) points on {backbone}", sure)[1])
        spreads = sorted(100 * np.std(gap, ddof=1) for gap in truths[backbone].gaps.values())
        assert (
            power(10, 1.03 * said_there, spreads[3])
            >= 0.8
            > power(10, 0.96 * said_there, spreads[3])
        )


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
