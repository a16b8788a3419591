/** The two networks, trained step by step as the recipe says, and drawn only when something changed. */
import { batch } from "@preact/signals";
import { COUNTS, STREAM, type Points, makePoints, ownPoints } from "./data";
import { Network } from "./network";
import { type Regions, findRegions } from "./regions";
import * as state from "./state";
import { MOST_STEPS, SIDES, type Side } from "./state";
import { Unit, entryOf } from "./units";

export interface Measured {
  regions: number | null;
  entropy: number;
  dead: number;
  gates: { open: number[]; dead: boolean[] }[];
  accuracy: number;
  loss: number;
}

export interface Arm {
  network: Network | null;
  /** A unit that reads other elements has a curve and no network. */
  unit: Unit;
  regions: Regions | null;
  measured: Measured | null;
}

export const arms: Record<Side, Arm> = { a: emptyArm(), b: emptyArm() };
export let train: Points;
export let test: Points;
/** Step, loss of a, loss of b. */
export let losses: [number, number, number][] = [];
export const counters = { draws: 0, frames: 0, trained: 0 };
let target = 0;
let pending = 0;
let frame = 0;
const painters: (() => void)[] = [];

function emptyArm(): Arm {
  return { network: null, unit: new Unit({ key: "relu", numbers: [] }), regions: null, measured: null };
}

/** A painter draws one canvas; all of them are called once in a frame in which something changed. */
export function addPainter(paint: () => void): () => void {
  painters.push(paint);
  invalidate();
  return () => painters.splice(painters.indexOf(paint), 1);
}

export function unitAt(side: Side, at: number): Unit {
  const r = state.recipe.value;
  return new Unit({ key: r[side].key, numbers: state.numbersAt(r, side, at) });
}

/** Begin again from the first weights, and train to a number of steps. */
export function restart(steps = 0): void {
  const r = state.recipe.value;
  if (r.problem === "own") {
    train = test = ownPoints(r.own);
  } else {
    train = makePoints(r.problem, r.seed, STREAM.train, COUNTS.train);
    test = makePoints(r.problem, r.seed, STREAM.test, COUNTS.test);
  }
  for (const side of SIDES) {
    const arm = arms[side];
    arm.unit = unitAt(side, 0);
    arm.network = entryOf(r[side].key).context ? null : new Network(r.width, arm.unit, r.seed);
  }
  losses = [];
  target = train.x.length ? Math.min(steps, MOST_STEPS) : 0;
  batch(() => {
    state.step.value = 0;
    remember();
  });
  work();
}

/** Take over numbers that were moved; the weights stay. */
export function applyNumbers(): void {
  for (const side of SIDES) {
    const arm = arms[side];
    arm.unit = unitAt(side, state.step.value);
    if (arm.network) arm.network.unit = arm.unit;
  }
  invalidate();
}

function remember(): void {
  const loss = (side: Side) => arms[side].network?.measure(train).loss ?? NaN;
  losses.push([state.step.value, loss("a"), loss("b")]);
}

function one(): void {
  const r = state.recipe.value;
  const at = state.step.peek();
  const changes = r.changes.some((change) => change.step === at);
  const rate = state.numbersAt(r, "rate", at)[0];
  for (const side of SIDES) {
    const arm = arms[side];
    if (changes) {
      arm.unit = unitAt(side, at);
      if (arm.network) arm.network.unit = arm.unit;
    }
    arm.network?.train(train, r.seed, at, rate);
  }
  counters.trained++;
  state.step.value = at + 1;
  if ((at + 1) % (at < 200 ? 5 : 20) === 0) remember();
}

export function play(on: boolean): void {
  if (on && !train.x.length) return;
  if (on && state.step.value >= MOST_STEPS) return;
  // Numbers that were moved beyond the present step belong to a past that is being rewritten.
  state.playing.value = on;
  if (on) work();
  else invalidate();
}

export function stepOnce(): void {
  if (!train.x.length || state.step.value >= MOST_STEPS) return;
  state.playing.value = false;
  one();
  remember();
  invalidate();
}

export function invalidate(): void {
  pending = 1;
  if (!frame) frame = requestAnimationFrame(run);
}

function work(): void {
  if (!frame) frame = requestAnimationFrame(run);
  pending = 1;
}

/** One animation frame: train, then draw if something changed, then ask for another only if it is needed. */
function run(): void {
  frame = 0;
  counters.frames++;
  const catching = state.step.value < target;
  if (catching) {
    const until = performance.now() + 40;
    batch(() => {
      while (state.step.value < target && performance.now() < until) one();
      if (state.step.value >= target) remember();
    });
    pending = state.step.value >= target ? 1 : 0;
  } else if (state.playing.value) {
    batch(() => {
      for (let i = 0; i < state.speed.value && state.step.value < MOST_STEPS; i++) one();
    });
    pending = 1;
    if (state.step.value >= MOST_STEPS) state.playing.value = false;
  }
  if (pending) {
    pending = 0;
    counters.draws++;
    draw();
  }
  if (state.playing.value || state.step.value < target) frame = frame || requestAnimationFrame(run);
}

export const busy = (): boolean => frame !== 0 || state.playing.value;

let sinceMeasured = 0;

function draw(): void {
  for (const side of SIDES) {
    const { network, unit } = arms[side];
    arms[side].regions = network && unit.breaks ? findRegions(network) : null;
  }
  sinceMeasured++;
  const moving = state.playing.value || state.step.value < target;
  if (!moving || sinceMeasured >= 8) {
    sinceMeasured = 0;
    for (const side of SIDES) measure(side);
    state.tick.value++;
  }
  for (const paint of painters) paint();
}

function measure(side: Side): void {
  const arm = arms[side];
  const { network, unit } = arm;
  if (!network || !train.x.length) {
    arm.measured = null;
    return;
  }
  const gates = network.gates(train);
  const dead = gates.reduce((sum, layer) => sum + layer.dead.filter(Boolean).length, 0);
  const { accuracy } = network.measure(test);
  const { loss } = network.measure(train);
  arm.measured = {
    regions: arm.regions ? arm.regions.regions.length : null,
    entropy: unit.breaks ? 0 : windowEntropy(network),
    dead,
    gates,
    accuracy,
    loss,
  };
}

const SAMPLES = 24;

/** Mean entropy of all gates over the window, on a grid. */
function windowEntropy(network: Network): number {
  let sum = 0;
  for (let i = 0; i < SAMPLES; i++) {
    for (let j = 0; j < SAMPLES; j++) {
      network.forward(6 * ((i + 0.5) / SAMPLES) - 3, 6 * ((j + 0.5) / SAMPLES) - 3);
      for (const z of [network.z[0], network.z[1]]) for (const value of z) sum += network.unit.entropy(value);
    }
  }
  return sum / (SAMPLES * SAMPLES * 2 * network.width);
}
