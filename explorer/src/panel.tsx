/** The map of one network, its gates as squares, and what is at the point that one points at. */
import { useEffect, useRef } from "preact/hooks";
import { addPoint } from "./app";
import * as lab from "./lab";
import { paintMap, readTheme } from "./map";
import { REACH } from "./regions";
import * as state from "./state";
import type { Side } from "./state";
import { entryOf } from "./units";

function useMap(side: Side) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    let theme = readTheme();
    const element = canvas.current!;
    const paint = () => {
      const size = element.clientWidth;
      if (!size) return;
      const ratio = Math.min(2, devicePixelRatio || 1);
      const pixels = Math.round(size * ratio);
      if (element.width !== pixels) element.width = element.height = pixels;
      const context = element.getContext("2d")!;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      const lit = state.gate.value;
      paintMap(context, lab.arms[side], theme, {
        size,
        moving: state.playing.value,
        gate: lit && lit.side === side ? lit : null,
        probe: state.probe.value,
      });
    };
    const remove = lab.addPainter(paint);
    const again = () => { theme = readTheme(); lab.invalidate(); };
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    const watch = new ResizeObserver(() => lab.invalidate());
    watch.observe(element);
    return () => { remove(); watch.disconnect(); dark.removeEventListener("change", again); };
  }, [side]);
  return canvas;
}

function point(at: [number, number] | null): void {
  state.probe.value = at;
  lab.invalidate();
}

export function Panel({ side }: { side: Side }) {
  const canvas = useMap(side);
  const place = (event: PointerEvent | MouseEvent): [number, number] => {
    const box = canvas.current!.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * 2 * REACH - REACH, REACH - ((event.clientY - box.top) / box.height) * 2 * REACH];
  };
  const onKey = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const [x, y] = state.probe.value ?? [0, 0];
    if (event.key in moves) {
      event.preventDefault();
      const by = event.shiftKey ? 0.5 : 0.1;
      const clamp = (v: number) => Math.min(REACH, Math.max(-REACH, v));
      point([clamp(x + by * moves[event.key][0]), clamp(y + by * moves[event.key][1])]);
    } else if (event.key === "Enter" && state.recipe.value.problem === "own") addPoint(x, y);
    else if (event.key === "Escape") point(null);
  };
  const entry = entryOf(state.recipe.value[side].key);
  return (
    <div class="panel">
      <div class="stage">
        <canvas ref={canvas} id={`map-${side}`} class="map" tabIndex={0} role="img"
          aria-label={`Map of network ${side.toUpperCase()}: ${summary(side)} Arrow keys move the point that is described below.`}
          onPointerMove={(event) => point(place(event))}
          onPointerDown={(event) => point(place(event))}
          onPointerLeave={(event) => { if (event.pointerType !== "touch") point(null); }}
          onClick={(event) => { if (state.recipe.value.problem === "own") addPoint(...place(event)); }}
          onKeyDown={onKey} />
        {entry.context && <p class="overlay">{entry.unit} reads more than its own element. It has a curve here and no network.</p>}
      </div>
      <Gates side={side} />
      <Stats side={side} />
      <Probe side={side} />
    </div>
  );
}

function summary(side: Side): string {
  state.tick.value;
  const { measured, network } = lab.arms[side];
  if (!measured) return network ? "measuring." : "no network.";
  const regions = measured.regions === null ? `mean gate entropy ${measured.entropy.toFixed(2)}` : `${measured.regions} regions`;
  return `${regions}, ${measured.dead} dead gates, ${(100 * measured.accuracy).toFixed(1)} percent correct.`;
}

function Stats({ side }: { side: Side }) {
  state.tick.value;
  const { measured, network } = lab.arms[side];
  if (!measured) return <p class="stats">{network ? "Measuring…" : "No network."}</p>;
  const own = state.recipe.value.problem === "own";
  return (
    <p class="stats">
      {measured.regions === null
        ? <span>gate entropy <b>{measured.entropy.toFixed(2)}</b></span>
        : <span><b id={`regions-${side}`}>{measured.regions}</b> regions</span>}
      <span class={measured.dead ? "bad" : ""}><b>{measured.dead}</b> dead gates</span>
      <span><b>{(100 * measured.accuracy).toFixed(1)} %</b> on {own ? "these" : "new"} points</span>
    </p>
  );
}

const digits = (value: number): string => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;

function Probe({ side }: { side: Side }) {
  state.tick.value;
  state.step.value;
  const at = state.probe.value;
  const { network, unit } = lab.arms[side];
  if (!at || !network) return <p class="probe quiet" aria-live="polite">Point at the map: open gates and the affine map there.</p>;
  const { a, b, open, paths } = network.affine(...at);
  const width = network.width;
  return (
    <p class="probe" aria-live="polite">
      x = ({at[0].toFixed(2)}, {at[1].toFixed(2)}): {open[0]} of {width} and {open[1]} of {width} gates {unit.breaks ? "open" : "more than half open"}, {paths.toLocaleString("en")} open paths.<br />
      {[0, 1].map((row) => <span key={row} class="row">{row ? "blue" : "orange"} = {digits(a[row][0])} x₁ {digits(a[row][1])} x₂ {digits(b[row])}</span>)}
    </p>
  );
}

/** One square a gate: darker if it is open for more of the points. */
function Gates({ side }: { side: Side }) {
  state.tick.value;
  const measured = lab.arms[side].measured;
  const at = state.probe.value;
  const arm = lab.arms[side];
  if (!measured || !arm.network) return <div class="gates" />;
  let here: number[][] | null = null;
  if (at) {
    arm.network.forward(...at);
    here = [0, 1].map((l) => Array.from(arm.network!.z[l], (z) => arm.unit.open(z)));
  }
  const light = (layer: number, index: number) => { state.gate.value = { side, layer, index }; lab.invalidate(); };
  const off = () => { state.gate.value = null; lab.invalidate(); };
  const lit = state.gate.value;
  const onKey = (event: KeyboardEvent, layer: number, index: number) => {
    const moves: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -100, ArrowDown: 100 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const by = moves[event.key];
    const width = arm.network!.width;
    const l = Math.abs(by) === 100 ? (layer + 1) % 2 : layer;
    const i = Math.abs(by) === 100 ? index : (index + by + width) % width;
    document.getElementById(`gate-${side}-${l}-${i}`)?.focus();
  };
  return (
    <div class="gates" role="group" aria-label={`Gates of network ${side.toUpperCase()}`}>
      {measured.gates.map((layer, l) => (
        <div key={l} class="gaterow">
          {layer.open.map((share, i) => {
            const isLit = lit && lit.side === side && lit.layer === l && lit.index === i;
            const shown = here ? here[l][i] : share;
            const text = `layer ${l + 1}, gate ${i + 1}: ${layer.dead[i] ? "dead" : `open ${Math.round(100 * share)} % on average`}`;
            return (
              <button key={i} id={`gate-${side}-${l}-${i}`} class={`gate${layer.dead[i] ? " dead" : ""}${isLit ? " lit" : ""}`}
                tabIndex={l === 0 && i === 0 ? 0 : -1} aria-label={text} title={text}
                style={{ "--open": shown.toFixed(3) }}
                onPointerEnter={() => light(l, i)} onPointerLeave={off} onFocus={() => light(l, i)} onBlur={off}
                onKeyDown={(event) => onKey(event, l, i)} />
            );
          })}
        </div>
      ))}
    </div>
  );
}
