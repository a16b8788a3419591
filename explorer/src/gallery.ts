/** Sliders for the numbers of the units in the gallery. The page is complete without them. */
import { CATALOGUE } from "./catalogue";
import { type CatalogueUnit, Unit, starts } from "./units";

const STEPS = 160;
const FIELD = 1000;
const SVG = "http://www.w3.org/2000/svg";

interface Frame {
  x: [number, number];
  y: [number, number];
}

function path(curve: (x: number) => number, frame: Frame, breaks: number[]): string {
  const [left, right] = frame.x;
  const [low, high] = frame.y;
  const xs = Array.from({ length: STEPS + 1 }, (_, i) => left + ((right - left) * i) / STEPS);
  for (const at of breaks) if (at > left && at < right) xs.push(at - 1e-6, at + 1e-6);
  xs.sort((a, b) => a - b);
  let text = "";
  let pen = false;
  for (const x of xs) {
    const y = curve(x);
    if (!Number.isFinite(y)) {
      pen = false;
      continue;
    }
    const across = (FIELD * (x - left)) / (right - left);
    const down = Math.max(-FIELD, Math.min(2 * FIELD, (FIELD * (high - y)) / (high - low)));
    text += `${pen ? "L" : "M"}${across.toFixed(1)} ${down.toFixed(1)}`;
    pen = true;
  }
  return text;
}

function range(axis: Element | null): [number, number] {
  const { low, high } = (axis as SVGElement).dataset;
  return [Number(low), Number(high)];
}

/** Draws the curves of a unit in place of those with default options. */
function draw(data: Element, curves: ((x: number) => number)[], frame: Frame, breaks: number[]) {
  for (const old of data.querySelectorAll("g:not(.live)")) {
    if (!old.classList.contains("c-light")) old.classList.add("replaced");
  }
  curves.forEach((curve, part) => {
    let group = data.querySelector(`g.live.part-${part}`);
    if (!group) {
      group = document.createElementNS(SVG, "g");
      group.setAttribute("class", `series line live part-${part} c-${part ? "two" : "base"}`);
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("class", "drawn");
      group.append(line);
      data.append(group);
    }
    group.firstElementChild?.setAttribute("d", path(curve, frame, breaks));
  });
}

function restore(root: Element | null) {
  for (const live of root?.querySelectorAll("g.live") ?? []) live.remove();
  for (const old of root?.querySelectorAll("g.replaced") ?? []) old.classList.remove("replaced");
}

function make<K extends keyof HTMLElementTagNameMap>(tag: K, into: Element, text = ""): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  element.textContent = text;
  into.append(element);
  return element;
}

function equip(card: HTMLElement, entry: CatalogueUnit) {
  const name = card.dataset.unit ?? "";
  const tile = [...document.querySelectorAll<HTMLElement>(".tile")].find((each) => each.dataset.unit === name) ?? null;
  const numbers = starts(entry.key);
  const before = card.querySelector(".panels");
  if (!before) return;
  const box = document.createElement("div");
  box.className = "dials";
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", `Numbers of ${name}`);
  before.before(box);
  const shown: [HTMLInputElement, HTMLOutputElement][] = [];

  const show = () => {
    const unit = new Unit({ key: entry.key, numbers: [...numbers] });
    const parts = Array.from({ length: unit.parts }, (_, k) => k);
    const breaks = unit.breaks ?? [0];
    const values = parts.map((k) => (x: number) => unit.value(x, k));
    const slopes = parts.map((k) => (x: number) => unit.slope(x, k));
    [...card.querySelectorAll(".plot")].forEach((plot, place) => {
      const data = plot.querySelector("svg.data");
      const frame = { x: range(plot.querySelector(".axis.across")), y: range(plot.querySelector(".axis.up")) };
      if (data) draw(data, place ? slopes : values, frame, breaks);
    });
    const small = tile?.querySelector("svg.thumb");
    if (small) draw(small, values, { x: [-4, 4], y: [-2, 4] }, breaks);
  };

  entry.dials.forEach((dial, index) => {
    const row = make("label", box);
    make("span", row, dial.label);
    const input = make("input", row);
    input.type = "range";
    input.min = String(dial.low);
    input.max = String(dial.high);
    input.step = String((dial.high - dial.low) / 400);
    input.value = String(dial.start);
    const output = make("output", row, String(Number(dial.start.toPrecision(3))));
    input.addEventListener("input", () => {
      numbers[index] = Number(Number(input.value).toPrecision(6));
      output.textContent = String(Number(numbers[index].toPrecision(3)));
      show();
    });
    shown.push([input, output]);
  });
  make("button", box, "Defaults").addEventListener("click", () => {
    entry.dials.forEach((dial, index) => {
      numbers[index] = dial.start;
      shown[index][0].value = String(dial.start);
      shown[index][1].textContent = String(Number(dial.start.toPrecision(3)));
    });
    restore(card);
    restore(tile);
  });
}

for (const card of document.querySelectorAll<HTMLElement>("article.card")) {
  const entry = CATALOGUE.find((each) => each.unit === card.dataset.unit && each.dials.length > 0);
  if (entry) equip(card, entry);
}

// The search leaves the units whose name, title and family have every word.
function find(search: HTMLInputElement) {
  const words = search.value.toLowerCase().split(/\s+/);
  for (const each of document.querySelectorAll<HTMLElement>("[data-words]")) {
    const text = (each.dataset.words ?? "").toLowerCase();
    each.hidden = !words.every((word) => text.includes(word));
  }
  for (const family of document.querySelectorAll<HTMLElement>(".family")) {
    family.hidden = !family.querySelector(".tile:not([hidden])");
  }
}

const search = document.querySelector<HTMLInputElement>("#search");
if (search) {
  search.hidden = false;
  search.addEventListener("input", () => find(search));
  search.addEventListener("keydown", (event) => {
    const first = document.querySelector<HTMLAnchorElement>(".tile:not([hidden])");
    if (event.key === "Enter") first?.click();
  });
}
