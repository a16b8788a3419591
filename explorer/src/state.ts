/** What the page shows, as signals, and the same as text in the address. */
import { signal } from "@preact/signals";
import { type OwnPoint, PROBLEMS, type Problem } from "./data";
import { CATALOGUE } from "./catalogue";
import { type Choice, entryOf, starts } from "./units";

export type Side = "a" | "b";
export const SIDES: Side[] = ["a", "b"];
export const WIDTHS = [4, 8, 12, 16, 24, 32];
export const RATES = [0.003, 0.01, 0.03, 0.1];
export const MOST_STEPS = 5000;
const MOST_CHANGES = 300;

/** From this step on, a unit has these numbers, or the learning rate is this one. */
export interface Change {
  step: number;
  what: Side | "rate";
  numbers: number[];
}

/** Everything that decides the weights: the address holds it, and the copied code repeats it. */
export interface Recipe {
  a: Choice;
  b: Choice;
  problem: Problem;
  own: OwnPoint[];
  width: number;
  seed: number;
  rate: number;
  changes: Change[];
}

export const first: Recipe = {
  a: { key: "relu", numbers: [] },
  b: { key: "silu", numbers: [] },
  problem: "spiral",
  own: [],
  width: 16,
  seed: 1,
  rate: 0.01,
  changes: [],
};

export const recipe = signal<Recipe>(first);
export const step = signal(0);
export const playing = signal(false);
export const speed = signal(2);
export const probe = signal<[number, number] | null>(null);
export const gate = signal<{ side: Side; layer: number; index: number } | null>(null);
export const painted = signal<0 | 1>(1); // the class of the next own point
export const tick = signal(0); // counts what the panels measured, so that text follows
export const tooManyChanges = () => recipe.value.changes.length > MOST_CHANGES;

/** The numbers that hold after a number of steps. */
export function numbersAt(r: Recipe, what: Side | "rate", at: number): number[] {
  let numbers = what === "rate" ? [r.rate] : r[what].numbers;
  for (const change of r.changes) if (change.what === what && change.step <= at) numbers = change.numbers;
  return numbers;
}

/** The recipe with other numbers from this step on. */
export function changed(r: Recipe, what: Side | "rate", numbers: number[], at: number): Recipe {
  if (at === 0) {
    if (what === "rate") return { ...r, rate: numbers[0], changes: [] };
    return { ...r, [what]: { ...r[what], numbers }, changes: [] };
  }
  const kept = r.changes.filter((change) => change.step < at || (change.step === at && change.what !== what));
  return { ...r, changes: [...kept, { step: at, what, numbers }] };
}

const short = (value: number): string => String(Number(value.toPrecision(6)));
const list = (numbers: number[]): string => numbers.map(short).join(",");

export function toAddress(r: Recipe, steps: number): string {
  const parts = new URLSearchParams();
  for (const side of SIDES) parts.set(side, [r[side].key, ...r[side].numbers.map(short)].join(","));
  parts.set("data", r.problem);
  if (r.problem === "own") parts.set("points", r.own.map((point) => point.join(",")).join(";"));
  parts.set("width", String(r.width));
  parts.set("seed", String(r.seed));
  parts.set("rate", short(r.rate));
  parts.set("step", String(steps));
  if (r.changes.length) {
    parts.set("changes", r.changes.map((c) => `${c.step}:${c.what}:${list(c.numbers)}`).join(";"));
  }
  return parts.toString().replace(/%2C/g, ",").replace(/%3B/g, ";").replace(/%3A/g, ":");
}

/** Read an address. What it does not say, or says wrongly, is as at the start. */
export function fromAddress(text: string): { recipe: Recipe; step: number } {
  const parts = new URLSearchParams(text.replace(/^#/, ""));
  const read: Recipe = { ...first };
  for (const side of SIDES) {
    const value = parts.get(side);
    if (value === null) continue;
    const [key, ...numbers] = value.split(",");
    if (usable(key)) read[side] = { key, numbers: fit(key, numbers.map(Number)) };
  }
  const problem = parts.get("data");
  if (PROBLEMS.some((name) => name === problem)) read.problem = problem as Problem;
  read.own = (parts.get("points") ?? "").split(";").map((p) => p.split(",").map(Number)).filter(isPoint) as OwnPoint[];
  const width = Number(parts.get("width"));
  if (WIDTHS.includes(width)) read.width = width;
  const rate = Number(parts.get("rate"));
  if (rate > 0 && rate <= 1) read.rate = rate;
  const seed = Number(parts.get("seed"));
  if (Number.isInteger(seed) && seed >= 1 && seed <= 9999) read.seed = seed;
  const steps = Math.floor(Number(parts.get("step")));
  read.changes = readChanges(parts.get("changes") ?? "", read);
  return { recipe: read, step: steps > 0 && steps <= MOST_STEPS ? steps : 0 };
}

function readChanges(text: string, r: Recipe): Change[] {
  const changes: Change[] = [];
  for (const part of text.split(";").slice(0, MOST_CHANGES)) {
    const [at, what, numbers] = part.split(":");
    const step = Math.floor(Number(at));
    if (!(step > 0) || numbers === undefined) continue;
    const values = numbers.split(",").map(Number);
    if (what === "rate" && values[0] > 0 && values[0] <= 1) changes.push({ step, what, numbers: [values[0]] });
    if (what === "a" || what === "b") changes.push({ step, what, numbers: fit(r[what].key, values) });
  }
  return changes.sort((a, b) => a.step - b.step);
}

const isPoint = (p: number[]): boolean =>
  p.length === 3 && Math.abs(p[0]) <= 3 && Math.abs(p[1]) <= 3 && (p[2] === 0 || p[2] === 1);

const usable = (key: string): boolean => CATALOGUE.some((entry) => entry.key === key);

function fit(key: string, numbers: number[]): number[] {
  return entryOf(key).dials.map((dial, i) => {
    const value = numbers[i];
    return Number.isFinite(value) ? Math.min(dial.high, Math.max(dial.low, value)) : starts(key)[i];
  });
}
