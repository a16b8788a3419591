import { effect } from "@preact/signals";
import { render } from "preact";
import { App } from "./app";
import * as lab from "./lab";
import { pythonCode } from "./code";
import * as state from "./state";
import { type Choice, Unit } from "./units";

/** The address that the page shows. Another one in the address bar is about to be loaded. */
let known = "";

function load(): void {
  known = location.hash;
  const read = state.fromAddress(known);
  state.playing.value = false;
  state.recipe.value = read.recipe;
  lab.restart(location.hash ? read.step : 200);
}

/** The address follows the page when it rests. */
function writeAddress(): void {
  if (state.playing.value || lab.busy() || location.hash !== known) return;
  const text = `#${state.toAddress(state.recipe.value, state.step.value)}`;
  if (text === known) return;
  history.replaceState(null, "", text);
  known = location.hash;
}

load();
const page = document.getElementById("page")!;
page.textContent = "";
render(<App />, page);
effect(() => {
  state.recipe.value;
  state.step.value;
  state.playing.value;
  state.tick.value;
  setTimeout(writeAddress, 60);
});
addEventListener("hashchange", () => {
  if (location.hash !== known) load();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) lab.play(false);
});

/** For tests and for curious people in the console. */
const explorer = {
  counters: lab.counters,
  busy: lab.busy,
  step: () => state.step.value,
  recipe: () => state.recipe.value,
  weights: (side: state.Side) => lab.arms[side].network?.export() ?? null,
  measured: (side: state.Side) => lab.arms[side].measured,
  code: () => pythonCode(state.recipe.value, state.step.value),
  play: lab.play,
  /** Value and slope of each part at each x. */
  curve: (choice: Choice, xs: number[]) => {
    const unit = new Unit(choice);
    const parts = Array.from({ length: unit.parts }, (_, k) => k);
    return parts.map((k) => ({ value: xs.map((x) => unit.value(x, k)), slope: xs.map((x) => unit.slope(x, k)) }));
  },
};
Object.assign(window, { explorer });
