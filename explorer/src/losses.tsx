/** The training loss of both networks by step, on a logarithmic axis. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { scaleLinear, scaleLog } from "d3-scale";
import * as lab from "./lab";
import * as state from "./state";

const HEIGHT = 110;

export function LossCurve() {
  const figure = useRef<HTMLElement>(null);
  const width = useSignal(900);
  useEffect(() => {
    const watch = new ResizeObserver(([entry]) => { width.value = Math.round(entry.contentRect.width); });
    watch.observe(figure.current!);
    return () => watch.disconnect();
  }, []);
  const WIDTH = Math.max(100, width.value - 50);
  state.tick.value;
  const rows = lab.losses;
  const values = rows.flatMap(([, a, b]) => [a, b]).filter((v) => v > 0 && Number.isFinite(v));
  if (!values.length) return <figure ref={figure} class="losses" />;
  const low = Math.min(0.1, ...values);
  const high = Math.max(1, ...values);
  const px = scaleLinear([0, Math.max(100, state.step.value)], [0, WIDTH]);
  const py = scaleLog([Math.max(1e-6, low), high], [HEIGHT, 0]);
  const line = (column: 1 | 2) => rows.filter((row) => row[column] > 0).map((row, i) => `${i ? "L" : "M"}${px(row[0]).toFixed(1)} ${py(Math.max(1e-6, row[column])).toFixed(1)}`).join("");
  const last = rows[rows.length - 1];
  const text = (value: number) => (Number.isFinite(value) ? value.toPrecision(3) : "none");
  const powers = [1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10].filter((p) => p >= low * 0.999 && p <= high * 1.001);
  return (
    <figure ref={figure} class="losses">
      <figcaption>Training loss. <span class="key a">A {text(last[1])}</span> <span class="key b">B {text(last[2])}</span></figcaption>
      <svg viewBox={`-40 -6 ${WIDTH + 50} ${HEIGHT + 24}`} role="img" aria-label={`Training loss after ${state.step.value} steps: A ${text(last[1])}, B ${text(last[2])}`}>
        {powers.map((p) => <g key={p}><line class="axis" x2={WIDTH} y1={py(p)} y2={py(p)} /><text class="tick" x={-6} y={py(p) + 4} text-anchor="end">{p}</text></g>)}
        {px.ticks(Math.max(2, WIDTH / 120)).map((t) => <text key={t} class="tick" x={px(t)} y={HEIGHT + 15} text-anchor="middle">{t}</text>)}
        {state.recipe.value.changes.map((change, i) => <line key={i} class="at" x1={px(change.step)} x2={px(change.step)} y2={HEIGHT} />)}
        <path class="loss a" d={line(1)} />
        <path class="loss b" d={line(2)} />
      </svg>
    </figure>
  );
}
