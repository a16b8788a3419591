/** Gate, response, output and slope of a unit as functions of its input, with its dials. */
import { scaleLinear } from "d3-scale";
import formulas from "formulas";
import { numbersOf, setNumbers } from "./app";
import * as lab from "./lab";
import * as state from "./state";
import type { Side } from "./state";
import { type Dial, Unit, entryOf } from "./units";

const REACH = 4;
const STEPS = 160;
const WIDTH = 200;
const HEIGHT = 76;

function path(y: (x: number) => number, low: number, high: number, breaks: number[]): string {
  const px = scaleLinear([-REACH, REACH], [0, WIDTH]);
  const py = scaleLinear([low, high], [HEIGHT, 0]);
  const xs: number[] = [];
  for (let i = 0; i <= STEPS; i++) xs.push(-REACH + (2 * REACH * i) / STEPS);
  for (const at of breaks) if (Math.abs(at) < REACH) xs.push(at - 1e-6, at + 1e-6);
  xs.sort((a, b) => a - b);
  let text = "";
  let pen = false;
  for (const x of xs) {
    const value = y(x);
    if (!Number.isFinite(value)) { pen = false; continue; }
    const inside = Math.max(low - 10 * (high - low), Math.min(high + 10 * (high - low), value));
    text += `${pen ? "L" : "M"}${px(x).toFixed(1)} ${py(inside).toFixed(1)}`;
    pen = true;
  }
  return text;
}

interface PlotProps {
  name: string;
  sign: string;
  curves: ((x: number) => number)[];
  ghost?: (x: number) => number;
  range: [number, number];
  breaks: number[];
  at: number | null;
  id: string;
}

function Plot({ name, sign, curves, ghost, range, breaks, at, id }: PlotProps) {
  const [low, high] = range;
  const py = scaleLinear([low, high], [HEIGHT, 0]);
  const px = scaleLinear([-REACH, REACH], [0, WIDTH]);
  const ticks = py.ticks(3);
  return (
    <figure class="plot">
      <figcaption><span class="sign" aria-hidden="true">{sign}</span>{name}{at !== null && <output>{curves[0](at).toFixed(2)}</output>}</figcaption>
      <svg viewBox={`-26 -3 ${WIDTH + 30} ${HEIGHT + 6}`} role="img" aria-label={`${name} from ${curves[0](-REACH).toFixed(2)} at −4 over ${curves[0](0.5).toFixed(2)} at 0.5 to ${curves[0](REACH).toFixed(2)} at 4`}>
        <defs><clipPath id={`clip-${id}`}><rect width={WIDTH} height={HEIGHT} /></clipPath></defs>
        <rect class="frame" width={WIDTH} height={HEIGHT} />
        {ticks.map((tick) => <g key={tick}><line class="axis" x2={WIDTH} y1={py(tick)} y2={py(tick)} /><text class="tick" x={-4} y={py(tick) + 3.5} text-anchor="end">{String(tick).replace("-", "−")}</text></g>)}
        <line class="axis" x1={px(0)} x2={px(0)} y2={HEIGHT} />
        <g clip-path={`url(#clip-${id})`}>
          {ghost && <path class="ghost" d={path(ghost, low, high, [0])} />}
          {curves.map((curve, k) => <path key={k} class={`line part${k}`} d={path(curve, low, high, breaks)} />)}
          {at !== null && <line class="at" x1={px(at)} x2={px(at)} y2={HEIGHT} />}
        </g>
      </svg>
    </figure>
  );
}

function DialRow({ side, dial, index, numbers }: { side: Side; dial: Dial; index: number; numbers: number[] }) {
  const step = (dial.high - dial.low) / 400;
  const set = (value: number) => {
    if (!Number.isFinite(value)) return;
    const next = [...numbers];
    next[index] = Number(Math.min(dial.high, Math.max(dial.low, value)).toPrecision(6));
    setNumbers(side, next);
  };
  const id = `dial-${side}-${dial.name.replace(/\W/g, "-")}`;
  return (
    <div class="dial">
      <label for={id}>{dial.label}</label>
      <input id={id} type="range" min={dial.low} max={dial.high} step={step} value={numbers[index]} onInput={(e) => set(Number(e.currentTarget.value))} />
      <output>{Number(numbers[index].toPrecision(3))}</output>
    </div>
  );
}

/** The formula as MathML. Its text comes from the catalogue, when the page is built. */
export function Formula({ side }: { side: Side }) {
  const entry = entryOf(state.recipe.value[side].key);
  return <div class="formula" tabIndex={0} role="math" aria-label={`Formula of ${entry.unit}`} dangerouslySetInnerHTML={{ __html: formulas[entry.formula] }} />;
}

export function Curves({ side }: { side: Side }) {
  const r = state.recipe.value;
  const entry = entryOf(r[side].key);
  const numbers = numbersOf(side);
  const unit = new Unit({ key: entry.key, numbers });
  const parts = Array.from({ length: unit.parts }, (_, k) => k);
  const breaks = unit.breaks ?? (entry.context || entry.unit === "pau" ? [0] : []);
  const at = responseAt(side);
  const relu = (x: number) => Math.max(0, x);
  const outputs = parts.map((k) => (x: number) => unit.value(x, k));
  const slopes = parts.map((k) => (x: number) => unit.slope(x, k));
  const gates = parts.map((k) => (x: number) => unit.gate(x, k));
  const name = side.toUpperCase();
  return (
    <div class="curves">
      {entry.dials.length > 0 && <div class={`dials${entry.dials.length > 4 ? " many" : ""}`} role="group" aria-label={`Numbers of unit ${name}`}>
        {entry.dials.map((dial, i) => <DialRow key={`${entry.key}${dial.name}`} side={side} dial={dial} index={i} numbers={numbers} />)}
      </div>}
      {entry.context && <p class="quiet">{entry.context}</p>}
      {unit.hasFactors
        ? <>
            <Plot id={`g${side}`} name="gate" sign="" curves={gates} range={[-1.2, 1.4]} breaks={[0, ...breaks]} at={at} />
            <Plot id={`r${side}`} name="response" sign="×" curves={[(x) => x]} range={[-REACH, REACH]} breaks={[]} at={at} />
          </>
        : <p class="quiet">The output at 0 is not 0, so there is no gate that multiplies the response. The slope takes its place.</p>}
      <Plot id={`y${side}`} name="output" sign={unit.hasFactors ? "=" : ""} curves={outputs} ghost={relu} range={[-1.6, 4]} breaks={breaks} at={at} />
      <Plot id={`s${side}`} name="slope" sign="" curves={slopes} range={[-1.2, 1.8]} breaks={breaks} at={at} />
    </div>
  );
}

/** The response of the lit gate at the point that one points at. */
function responseAt(side: Side): number | null {
  state.tick.value;
  const at = state.probe.value;
  const lit = state.gate.value;
  const network = lab.arms[side].network;
  if (!at || !network) return null;
  network.forward(...at);
  const z = network.z[lit?.side === side ? lit.layer : 0][lit?.side === side ? lit.index : 0];
  return Math.abs(z) <= REACH ? z : null;
}
