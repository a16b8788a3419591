import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { CATALOGUE, FAMILIES } from "./catalogue";
import { pythonCode } from "./code";
import { Curves, Formula } from "./curves";
import { PROBLEMS, PROBLEM_NAMES, type Problem } from "./data";
import * as lab from "./lab";
import { LossCurve } from "./losses";
import { Panel } from "./panel";
import * as state from "./state";
import { RATES, type Recipe, type Side, WIDTHS } from "./state";
import { type Choice, entryOf, starts } from "./units";

/** Another recipe: both networks begin again and are trained to the step where they were. */
function replace(change: Partial<Recipe>): void {
  const steps = state.step.value;
  state.recipe.value = { ...state.recipe.value, changes: [], ...change };
  lab.restart(steps);
}

export function choose(side: Side, key: string): void {
  const r = state.recipe.value;
  const now: Record<Side, Choice> = { a: { ...r.a, numbers: state.numbersAt(r, "a", state.step.value) }, b: { ...r.b, numbers: state.numbersAt(r, "b", state.step.value) } };
  now[side] = { key, numbers: starts(key) };
  replace({ a: now.a, b: now.b, rate: state.numbersAt(r, "rate", state.step.value)[0] });
}

export function setNumbers(what: Side | "rate", numbers: number[]): void {
  state.recipe.value = state.changed(state.recipe.value, what, numbers, state.step.value);
  lab.applyNumbers();
}

export function numbersOf(side: Side): number[] {
  return state.numbersAt(state.recipe.value, side, state.step.value);
}

function setBeta(beta: number): void {
  const r = state.recipe.value;
  const same = SAME_AS_BETA[r.b.key];
  if (same !== undefined) {
    // The same function with a slider: the trained weights stay.
    state.recipe.value = { ...r, b: { key: "beta_vq of relu", numbers: [same] } };
  } else if (entryOf(r.b.key).unit !== "beta_vq") {
    replace({ b: { key: "beta_vq of relu", numbers: [beta] } });
    return;
  }
  setNumbers("b", [beta]);
}

/** Units that are a softened ReLU with this beta. */
const SAME_AS_BETA: Record<string, number> = { relu: 1, silu: 0.5 };

const BETA_NAMES: Record<string, [string, string, string]> = {
  relu: ["ReLU", "SiLU", "the line x/2"],
  abs: ["|x|", "x tanh x", "0"],
  leaky_relu: ["leaky ReLU", "softened", "a line"],
};

function Softness() {
  const r = state.recipe.value;
  const entry = entryOf(r.b.key);
  const vq = entry.unit === "beta_vq";
  const beta = vq ? numbersOf("b")[0] : SAME_AS_BETA[r.b.key];
  const soft = beta !== undefined;
  const names = BETA_NAMES[vq ? entry.fixed.pieces : "relu"];
  return (
    <div class="softness">
      <label for="beta"><b>Gates of B</b></label>
      <div class="slider">
        <span>hard</span>
        <input id="beta" type="range" min="0" max="1" step="0.005" value={soft ? 1 - beta : 0.5}
          aria-valuetext={soft ? `beta ${beta.toFixed(3)}, from hard (1) to soft (0)` : "not a softened ReLU; moving this replaces B by one"}
          onInput={(event) => setBeta(Math.round(1000 * (1 - Number(event.currentTarget.value))) / 1000)} />
        <span>soft</span>
        <div class="marks">
          {([1, 0.5, 0] as const).map((value, i) => (
            <button key={value} class="plain" title={`beta = ${value}`} onClick={() => setBeta(value)}>{names[i]}</button>
          ))}
        </div>
      </div>
      <p class="say">{soft ? say(beta) : <>{entry.key} is not a softened ReLU. Move the slider to replace B by one.</>}</p>
    </div>
  );
}

function say(beta: number) {
  state.tick.value;
  const measured = lab.arms.b.measured;
  const entropy = measured ? measured.entropy.toFixed(2) : "…";
  if (beta >= 1) return <><b>β = 1: every gate is a switch.</b> The network is {measured?.regions ?? "…"} affine maps, one per region.</>;
  if (beta > 0) return <><b>β = {beta}: gates are partly open.</b> No exact regions. Mean gate entropy {entropy} bits: 0 is decided, 1 is half open.</>;
  return <><b>β = 0: every gate is half open everywhere.</b> The whole network is one affine map.</>;
}

function Toolbar() {
  const r = state.recipe.value;
  const on = state.playing.value;
  const rate = state.numbersAt(r, "rate", state.step.value)[0];
  return (
    <div class="bar" role="toolbar" aria-label="Training">
      <button id="play" class="main" onClick={() => lab.play(!on)} aria-keyshortcuts="Space">{on ? "Pause" : "Train"}</button>
      <button id="step" onClick={lab.stepOnce} aria-keyshortcuts=".">Step</button>
      <button id="reset" onClick={() => { lab.play(false); replaceAtStart(); }} aria-keyshortcuts="r">Reset</button>
      <span class="count" role="status">step {state.step.value}</span>
      <span class="gap" />
      <label>speed <select value={state.speed.value} onChange={(e) => (state.speed.value = Number(e.currentTarget.value))}>
        {[1, 2, 4, 8, 16].map((n) => <option key={n} value={n}>{n}×</option>)}
      </select></label>
      <label>data <select id="data" value={r.problem} onChange={(e) => replace({ problem: e.currentTarget.value as Problem })}>
        {PROBLEMS.map((name) => <option key={name} value={name}>{PROBLEM_NAMES[name]}</option>)}
      </select></label>
      <label>network <select id="width" value={r.width} onChange={(e) => replace({ width: Number(e.currentTarget.value) })}>
        {WIDTHS.map((n) => <option key={n} value={n}>2-{n}-{n}-2</option>)}
      </select></label>
      <label>seed <input id="seed" type="number" min="1" max="9999" value={r.seed}
        onChange={(e) => { const seed = Number(e.currentTarget.value); if (Number.isInteger(seed) && seed > 0 && seed < 10000) replace({ seed }); }} /></label>
      <label>learning rate <select id="rate" value={rate} onChange={(e) => setNumbers("rate", [Number(e.currentTarget.value)])}>
        {[...new Set([...RATES, rate])].sort((x, y) => x - y).map((n) => <option key={n} value={n}>{n}</option>)}
      </select></label>
    </div>
  );
}

/** Keep what is set now, and begin again. */
function replaceAtStart(): void {
  const r = state.recipe.value;
  const at = state.step.value;
  state.recipe.value = {
    ...r,
    a: { ...r.a, numbers: state.numbersAt(r, "a", at) },
    b: { ...r.b, numbers: state.numbersAt(r, "b", at) },
    rate: state.numbersAt(r, "rate", at)[0],
    changes: [],
  };
  lab.restart(0);
}

function OwnPoints() {
  if (state.recipe.value.problem !== "own") return null;
  const count = state.recipe.value.own.length;
  return (
    <div class="own">
      <span>Click on a map to add a point. {count} point{count === 1 ? "" : "s"}. Next class:</span>
      {([0, 1] as const).map((label) => (
        <label key={label}><input type="radio" name="class" checked={state.painted.value === label} onChange={() => (state.painted.value = label)} /> {label ? "blue circles" : "orange squares"}</label>
      ))}
      <button onClick={() => { state.recipe.value = { ...state.recipe.value, own: [], changes: [] }; lab.restart(0); }}>Remove all</button>
    </div>
  );
}

export function addPoint(x: number, y: number): void {
  const round = (v: number) => Math.round(v * 100) / 100;
  const r = state.recipe.value;
  if (r.own.length >= 400) return;
  state.recipe.value = { ...r, own: [...r.own, [round(x), round(y), state.painted.value]], changes: [] };
  lab.restart(0);
}

/** The hard and the soft form of one unit, one unit that cannot die, and one with two outputs. */
const TRIES: { name: string; text: string; recipe: Partial<Recipe>; steps: number }[] = [
  { name: "Soften a trained network", text: "B is trained as ReLU. Then move its slider from hard to soft: its weights stay, and its regions dissolve.",
    recipe: { a: { key: "relu", numbers: [] }, b: { key: "beta_vq of relu", numbers: [1] }, problem: "spiral", width: 16, rate: 0.01 }, steps: 500 },
  { name: "Look for dead gates", text: "ReLU and leaky ReLU at a learning rate of 0.1. A crossed square is a gate whose slope is 0 at every training point.",
    recipe: { a: { key: "relu", numbers: [] }, b: { key: "leaky_relu", numbers: [0.1] }, problem: "rings", width: 12, rate: 0.1 }, steps: 200 },
  { name: "Keep both signs", text: "CReLU passes both signs of each response. Its later layers have twice the weights, so this is not a fair comparison of units.",
    recipe: { a: { key: "relu", numbers: [] }, b: { key: "crelu", numbers: [] }, problem: "spiral", width: 8, rate: 0.01 }, steps: 300 },
];

function Tries() {
  return (
    <section>
      <h2>Three things to try</h2>
      <ul class="tries">
        {TRIES.map((item) => (
          <li key={item.name}>
            <button class="plain link" onClick={() => { lab.play(false); state.recipe.value = { ...state.first, ...item.recipe, seed: 1, changes: [] }; lab.restart(item.steps); scrollTo({ top: 0 }); }}>{item.name}</button>
            <span>{item.text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Code() {
  const said = useSignal("");
  state.tick.value;
  const text = state.playing.value ? "" : pythonCode(state.recipe.value, state.step.value);
  const copy = async () => {
    lab.play(false);
    const code = pythonCode(state.recipe.value, state.step.value);
    try {
      await navigator.clipboard.writeText(code);
      said.value = "Copied.";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(document.getElementById("code")!);
      const selection = getSelection()!;
      selection.removeAllRanges();
      selection.addRange(range);
      said.value = "Selected. Press Ctrl+C to copy.";
    }
  };
  return (
    <section>
      <h2>Continue in Python</h2>
      <p>This code trains the same two networks: the same points, first weights, batches, optimiser and changes. One seed shows no difference between units. <code>gw.compare</code> trains many seeds and tests the differences.</p>
      <p><button id="copy" onClick={copy}>Copy as gatewise code</button> <span role="status">{said.value}</span></p>
      <details><summary>Show the code</summary><pre id="code" tabIndex={0}>{text || "Pause the training to see the code."}</pre></details>
    </section>
  );
}

function UnitPicker({ side }: { side: Side }) {
  const r = state.recipe.value;
  const entry = entryOf(r[side].key);
  const name = side.toUpperCase();
  return (
    <div class="picker">
      <label class="who"><span class="tag">{name}</span>
        <select id={`unit-${side}`} aria-label={`Unit ${name}`} value={entry.key} onChange={(e) => choose(side, e.currentTarget.value)}>
          {Object.keys(FAMILIES).map((family) => (
            <optgroup key={family} label={`${family}: ${FAMILIES[family]}`}>
              {CATALOGUE.filter((unit) => unit.family === family).map((unit) => <option key={unit.key} value={unit.key}>{unit.key}</option>)}
            </optgroup>
          ))}
        </select>
      </label>
    </div>
  );
}

function onKey(event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || /SELECT|INPUT|TEXTAREA|BUTTON|SUMMARY/.test(target.tagName)) return;
  if (event.key === " ") { event.preventDefault(); lab.play(!state.playing.value); }
  else if (event.key === ".") lab.stepOnce();
  else if (event.key === "r") { lab.play(false); replaceAtStart(); }
}

export function App() {
  useEffect(() => {
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <header>
        <h1>Explorer of gates</h1>
        <p class="lede"><b>The output of an activation function is a gate times a linear response.</b> Gates that are switches cut the plane into regions with one affine map each. Soft gates dissolve the regions. Two networks train below on the same batches from the same weights. Only the activation function differs.</p>
      </header>
      <Toolbar />
      <OwnPoints />
      <Softness />
      <div class="panels">
        {state.SIDES.map((side) => (
          <section key={side} class="arm" aria-label={`Network ${side.toUpperCase()}`}>
            <UnitPicker side={side} />
            <Formula side={side} />
            <div class="both">
              <Panel side={side} />
              <Curves side={side} />
            </div>
          </section>
        ))}
      </div>
      <LossCurve />
      {state.tooManyChanges() && <p role="status">Too many changes during training to fit in the address. Press Reset to start again.</p>}
      <div class="below">
        <Tries />
        <section>
          <h2>How to read the maps</h2>
          <p>Colour is the answer of the network, and it is fainter where both classes have similar scores. The heavy line is the decision boundary. Fine lines show where gates switch: darker for layer 1, lighter for layer 2. Soft gates have no regions, and the map is greyer where gates are undecided.</p>
          <p>Point at a map to see which gates are open there, the affine map and the number of open paths. Point at a square to light the line of its gate. A crossed square is a dead gate: its slope is 0 at every training point.</p>
          <p class="quiet">Keys: <kbd>space</kbd> train or pause, <kbd>.</kbd> one step, <kbd>r</kbd> reset. Maps and squares take the arrow keys. The address holds everything on this page: copy it to share what you see.</p>
        </section>
        <Code />
      </div>
    </>
  );
}
