/** Drawing of one network on a canvas: regions or a soft map, the decision boundary, gates and points. */
import { contours } from "d3-contour";
import { train } from "./lab";
import type { Arm } from "./lab";
import type { Network } from "./network";
import { REACH, type Region } from "./regions";

type Colour = [number, number, number];

export interface Theme {
  zero: Colour;
  one: Colour;
  unsure: Colour;
  grey: Colour;
  ink: string;
  first: string;
  second: string;
  light: string;
  pointZero: string;
  pointOne: string;
  ring: string;
}

export function readTheme(): Theme {
  const css = getComputedStyle(document.documentElement);
  const get = (name: string): string => css.getPropertyValue(name).trim();
  const colour = (name: string): Colour => {
    const hex = get(name).slice(1);
    return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16)) as Colour;
  };
  return {
    zero: colour("--map-zero"), one: colour("--map-one"), unsure: colour("--map-unsure"), grey: colour("--map-grey"),
    ink: get("--ink"), first: get("--edge-first"), second: get("--edge-second"), light: get("--lit"),
    pointZero: get("--zero"), pointOne: get("--one"), ring: get("--card"),
  };
}

/** Scores beyond this are drawn in full colour. */
const SURE = 4;

function blend(theme: Theme, score: number): Colour {
  const share = Math.min(1, Math.abs(score) / SURE);
  const end = score > 0 ? theme.one : theme.zero;
  return [0, 1, 2].map((i) => theme.unsure[i] + share * (end[i] - theme.unsure[i])) as Colour;
}

const css = ([r, g, b]: Colour): string => `rgb(${Math.round(r)},${Math.round(g)},${Math.round(b)})`;

export interface View {
  size: number;
  moving: boolean;
  gate: { layer: number; index: number } | null;
  probe: [number, number] | null;
}

export function paintMap(context: CanvasRenderingContext2D, arm: Arm, theme: Theme, view: View): void {
  const { size } = view;
  const scale = size / (2 * REACH);
  const px = (x: number): number => (x + REACH) * scale;
  const py = (y: number): number => (REACH - y) * scale;
  context.clearRect(0, 0, size, size);
  if (!arm.network) {
    context.fillStyle = css(theme.unsure);
    context.fillRect(0, 0, size, size);
    return;
  }
  if (arm.regions) {
    paintRegions(context, arm, theme, view, px, py);
  } else {
    paintSoft(context, arm.network, theme, view, px, py);
  }
  paintPoints(context, theme, px, py, size);
  if (view.probe) {
    context.strokeStyle = theme.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(px(view.probe[0]), py(view.probe[1]), 5, 0, 2 * Math.PI);
    context.stroke();
  }
}

type Axis = (value: number) => number;

function paintRegions(context: CanvasRenderingContext2D, arm: Arm, theme: Theme, view: View, px: Axis, py: Axis): void {
  const { regions, edges } = arm.regions!;
  if (view.moving && regions.length > MANY) fillInLevels(context, regions, theme, px, py);
  else fillExactly(context, regions, theme, px, py);
  for (const layer of [1, 0]) {
    context.beginPath();
    for (const [x1, y1, x2, y2, at] of edges) {
      if (at !== layer) continue;
      context.moveTo(px(x1), py(y1));
      context.lineTo(px(x2), py(y2));
    }
    context.strokeStyle = layer ? theme.second : theme.first;
    context.lineWidth = layer ? 0.6 : 0.9;
    context.stroke();
  }
  context.beginPath();
  for (const region of regions) boundaryIn(context, region, px, py);
  context.strokeStyle = theme.ink;
  context.lineWidth = 2.2;
  context.lineCap = "round";
  context.stroke();
  if (view.gate) {
    context.beginPath();
    for (const [x1, y1, x2, y2, layer, index] of edges) {
      if (layer !== view.gate.layer || index !== view.gate.index) continue;
      context.moveTo(px(x1), py(y1));
      context.lineTo(px(x2), py(y2));
    }
    light(context, theme);
  }
}

/** More regions than this are filled in few colours while the network trains. */
const MANY = 400;
const LEVELS = 48;

function fillExactly(context: CanvasRenderingContext2D, regions: Region[], theme: Theme, px: Axis, py: Axis): void {
  for (const region of regions) {
    const fill = fillOf(context, region, theme, px, py, regions.length > 2500);
    context.beginPath();
    outline(context, region, px, py);
    context.fillStyle = fill;
    context.fill();
    context.strokeStyle = fill; // closes the hairline between neighbours
    context.lineWidth = 0.6;
    context.stroke();
  }
}

/** One colour a region, that of its mean score, and one path for all regions of a colour. */
function fillInLevels(context: CanvasRenderingContext2D, regions: Region[], theme: Theme, px: Axis, py: Axis): void {
  const levels: Region[][] = Array.from({ length: LEVELS + 1 }, () => []);
  for (const region of regions) {
    const { corners, gx, gy, c } = region;
    const count = corners.length / 2;
    let score = 0;
    for (let i = 0; i < corners.length; i += 2) score += gx * corners[i] + gy * corners[i + 1] + c;
    const share = Math.max(-1, Math.min(1, score / count / SURE));
    levels[Math.round((LEVELS * (share + 1)) / 2)].push(region);
  }
  levels.forEach((members, level) => {
    if (!members.length) return;
    context.beginPath();
    for (const region of members) outline(context, region, px, py);
    context.fillStyle = css(blend(theme, SURE * ((2 * level) / LEVELS - 1)));
    context.fill();
  });
}

function light(context: CanvasRenderingContext2D, theme: Theme): void {
  context.strokeStyle = theme.ring;
  context.lineWidth = 6;
  context.stroke();
  context.strokeStyle = theme.light;
  context.lineWidth = 3;
  context.stroke();
}

function outline(context: CanvasRenderingContext2D, { corners }: Region, px: Axis, py: Axis): void {
  context.moveTo(px(corners[0]), py(corners[1]));
  for (let i = 2; i < corners.length; i += 2) context.lineTo(px(corners[i]), py(corners[i + 1]));
  context.closePath();
}

/** The score is linear on a region, so a linear gradient shows it exactly. */
function fillOf(context: CanvasRenderingContext2D, region: Region, theme: Theme, px: Axis, py: Axis, flat: boolean): string | CanvasGradient {
  const { corners, gx, gy, c } = region;
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < corners.length; i += 2) {
    const score = gx * corners[i] + gy * corners[i + 1] + c;
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  if (flat || low >= SURE || high <= -SURE || high - low < 0.4) return css(blend(theme, (low + high) / 2));
  const square = gx * gx + gy * gy;
  const at = (score: number): [number, number] => {
    // The point closest to the first corner at which the score is this one.
    const share = (score - (gx * corners[0] + gy * corners[1] + c)) / square;
    return [px(corners[0] + share * gx), py(corners[1] + share * gy)];
  };
  const gradient = context.createLinearGradient(...at(-SURE), ...at(SURE));
  gradient.addColorStop(0, css(theme.zero));
  gradient.addColorStop(0.5, css(theme.unsure));
  gradient.addColorStop(1, css(theme.one));
  return gradient;
}

/** The line on which both classes have the same score, as far as it lies in the region. */
function boundaryIn(context: CanvasRenderingContext2D, { corners, gx, gy, c }: Region, px: Axis, py: Axis): void {
  const count = corners.length / 2;
  let begun = false;
  for (let i = 0; i < count; i++) {
    const j = (i + 1) % count;
    const s = gx * corners[2 * i] + gy * corners[2 * i + 1] + c;
    const t = gx * corners[2 * j] + gy * corners[2 * j + 1] + c;
    if (s > 0 === t > 0) continue;
    const share = s / (s - t);
    const x = px(corners[2 * i] + share * (corners[2 * j] - corners[2 * i]));
    const y = py(corners[2 * i + 1] + share * (corners[2 * j + 1] - corners[2 * i + 1]));
    if (begun) context.lineTo(x, y);
    else context.moveTo(x, y);
    begun = true;
  }
}

const sheets = new Map<number, OffscreenCanvas | HTMLCanvasElement>();

function sheet(size: number): HTMLCanvasElement {
  let canvas = sheets.get(size) as HTMLCanvasElement | undefined;
  if (!canvas) {
    canvas = document.createElement("canvas");
    canvas.width = canvas.height = size;
    sheets.set(size, canvas);
  }
  return canvas;
}

function paintSoft(context: CanvasRenderingContext2D, network: Network, theme: Theme, view: View, px: Axis, py: Axis): void {
  const n = view.moving ? (network.width > 16 ? 44 : 56) : 128;
  const scores = new Float64Array(n * n);
  const lit = view.gate ? new Float64Array(n * n) : null;
  const canvas = sheet(n);
  const inner = canvas.getContext("2d")!;
  const image = inner.createImageData(n, n);
  const { unit } = network;
  for (let j = 0; j < n; j++) {
    for (let i = 0; i < n; i++) {
      const out = network.forward((2 * REACH * (i + 0.5)) / n - REACH, REACH - (2 * REACH * (j + 0.5)) / n);
      const score = out[1] - out[0];
      const at = j * n + i;
      scores[at] = score;
      if (lit) lit[at] = network.z[view.gate!.layer][view.gate!.index];
      let entropy = 0;
      for (let l = 0; l < 2; l++) {
        const z = network.z[l];
        for (let r = 0; r < z.length; r++) entropy += unit.entropy(z[r]);
      }
      entropy /= 2 * network.width;
      const colour = blend(theme, score);
      for (let k = 0; k < 3; k++) image.data[4 * at + k] = colour[k] + 0.75 * entropy * (theme.grey[k] - colour[k]);
      image.data[4 * at + 3] = 255;
    }
  }
  inner.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(canvas, 0, 0, view.size, view.size);
  firstLines(context, network, theme, px, py);
  level(context, scores, n, view.size);
  context.strokeStyle = theme.ink;
  context.lineWidth = 2.2;
  context.stroke();
  if (lit) {
    level(context, lit, n, view.size);
    light(context, theme);
  }
}

/** Faint: where the response of each gate of layer 1 is 0. */
function firstLines(context: CanvasRenderingContext2D, network: Network, theme: Theme, px: Axis, py: Axis): void {
  const { weight, bias, rows } = network.layers[0];
  context.beginPath();
  for (let r = 0; r < rows; r++) {
    const a = weight[2 * r], b = weight[2 * r + 1], c = bias[r];
    if (Math.abs(a) < Math.abs(b)) {
      context.moveTo(px(-REACH), py(-(c - a * REACH) / b));
      context.lineTo(px(REACH), py(-(c + a * REACH) / b));
    } else if (a !== 0) {
      context.moveTo(px(-(c - b * REACH) / a), py(-REACH));
      context.lineTo(px(-(c + b * REACH) / a), py(REACH));
    }
  }
  context.strokeStyle = theme.second;
  context.lineWidth = 0.5;
  context.stroke();
}

/** The line on which the values are 0. */
function level(context: CanvasRenderingContext2D, values: Float64Array, n: number, size: number): void {
  const shape = contours().size([n, n]).contour(values as unknown as number[], 0);
  const scale = size / n;
  context.beginPath();
  for (const polygon of shape.coordinates) {
    for (const ring of polygon) {
      for (let i = 0; i < ring.length; i++) {
        const [x, y] = ring[i];
        const edge = x <= 0.01 || y <= 0.01 || x >= n - 0.01 || y >= n - 0.01;
        const [u, v] = ring[Math.max(0, i - 1)];
        const before = u <= 0.01 || v <= 0.01 || u >= n - 0.01 || v >= n - 0.01;
        if (i === 0 || (edge && before)) context.moveTo(x * scale, y * scale);
        else context.lineTo(x * scale, y * scale);
      }
    }
  }
}

function paintPoints(context: CanvasRenderingContext2D, theme: Theme, px: Axis, py: Axis, size: number): void {
  const radius = Math.max(1.8, size / 130);
  context.lineWidth = size > 250 ? 1 : 0.6;
  context.strokeStyle = theme.ring;
  for (const label of [0, 1]) {
    context.fillStyle = label ? theme.pointOne : theme.pointZero;
    context.beginPath();
    for (let i = 0; i < train.x.length; i++) {
      if (train.label[i] !== label) continue;
      const x = px(train.x[i]), y = py(train.y[i]);
      context.moveTo(x + radius, y);
      if (label) context.arc(x, y, radius, 0, 2 * Math.PI);
      else {
        // Squares: the classes differ in shape, not only in colour.
        context.rect(x - radius * 0.85, y - radius * 0.85, radius * 1.7, radius * 1.7);
      }
    }
    context.fill();
    context.stroke();
  }
}
