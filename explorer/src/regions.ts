/** The exact regions of a network with a max-affine unit: convex polygons, one affine map each. */
import type { Network } from "./network";

export const REACH = 3; // the window is from -REACH to REACH on both axes

export interface Region {
  /** x and y of the corners, in turn. */
  corners: number[];
  /** Score of class 1 minus class 0: gx x + gy y + c. */
  gx: number;
  gy: number;
  c: number;
}

/** Where a gate switches: x1, y1, x2, y2, layer, gate. */
export type Edge = [number, number, number, number, number, number];

export interface Regions {
  regions: Region[];
  edges: Edge[];
}

interface Cell {
  corners: number[];
  /** By pre-activation of the present layer: x, y and constant. */
  map: Float64Array;
}

const SLIVER = 1e-12;

export function findRegions(network: Network): Regions {
  const breaks = network.unit.breaks as number[];
  const edges: Edge[] = [];
  const square = [-REACH, -REACH, REACH, -REACH, REACH, REACH, -REACH, REACH];
  const plane = new Float64Array([1, 0, 0, 0, 1, 0]);
  let cells: Cell[] = [{ corners: square, map: compose(network, 0, plane) }];
  const regions: Region[] = [];
  for (let l = 0; l < 2; l++) {
    const next: Cell[] = [];
    for (const cell of cells) {
      let parts = [cell.corners];
      for (let r = 0; r < network.width; r++) {
        for (const at of breaks) {
          // What does not cut a cell cuts none of its parts.
          if (!isCut(cell.corners, cell.map, r, at)) continue;
          const split: number[][] = [];
          for (const corners of parts) cut(corners, cell.map, r, at, split, edges, l);
          parts = split;
        }
      }
      for (const corners of parts) {
        pass(network, cell.map, corners);
        if (l === 0) next.push({ corners, map: compose(network, 1, passed) });
        else regions.push(regionOf(network, corners));
      }
    }
    cells = next;
  }
  return { regions, edges };
}

/** The pre-activations of layer l as affine functions, from the inputs of that layer as affine functions. */
function compose(network: Network, l: number, inputs: Float64Array): Float64Array {
  const { rows, cols, weight, bias } = network.layers[l];
  const map = new Float64Array(3 * rows);
  for (let r = 0; r < rows; r++) {
    let s = 0, t = 0, u = bias[r];
    const start = r * cols;
    for (let c = 0; c < cols; c++) {
      const w = weight[start + c];
      s += w * inputs[3 * c];
      t += w * inputs[3 * c + 1];
      u += w * inputs[3 * c + 2];
    }
    map[3 * r] = s;
    map[3 * r + 1] = t;
    map[3 * r + 2] = u;
  }
  return map;
}

let passed = new Float64Array(0);

/** Put into `passed` the outputs of a layer's units on one region, as affine functions. */
function pass(network: Network, map: Float64Array, corners: number[]): void {
  const { unit, width, parts } = network;
  if (passed.length !== 3 * width * parts) passed = new Float64Array(3 * width * parts);
  let x = 0, y = 0;
  for (let i = 0; i < corners.length; i += 2) {
    x += corners[i];
    y += corners[i + 1];
  }
  x /= corners.length / 2;
  y /= corners.length / 2;
  for (let r = 0; r < width; r++) {
    const gx = map[3 * r], gy = map[3 * r + 1], c = map[3 * r + 2];
    const piece = unit.pieces[unit.piece(gx * x + gy * y + c)];
    for (let k = 0; k < parts; k++) {
      const { slope, offset } = piece[k];
      const at = 3 * (k * width + r);
      passed[at] = slope * gx;
      passed[at + 1] = slope * gy;
      passed[at + 2] = slope * c + offset;
    }
  }
}

/** The region with the score that the last layer has on it. */
function regionOf(network: Network, corners: number[]): Region {
  const { cols, weight, bias } = network.layers[2];
  let gx = 0, gy = 0, c = bias[1] - bias[0];
  for (let i = 0; i < cols; i++) {
    const w = weight[cols + i] - weight[i];
    gx += w * passed[3 * i];
    gy += w * passed[3 * i + 1];
    c += w * passed[3 * i + 2];
  }
  return { corners, gx, gy, c };
}

const sides = new Float64Array(512);

/** Put into `sides` the pre-activation r minus `at` at each corner, and return whether it has both signs. */
function isCut(corners: number[], map: Float64Array, r: number, at: number): boolean {
  const gx = map[3 * r], gy = map[3 * r + 1], c = map[3 * r + 2] - at;
  const tiny = SLIVER * ((Math.abs(gx) + Math.abs(gy)) * REACH + Math.abs(c));
  let above = false, below = false;
  for (let i = 0; 2 * i < corners.length; i++) {
    const value = gx * corners[2 * i] + gy * corners[2 * i + 1] + c;
    if (value > tiny) above = true;
    else if (value < -tiny) below = true;
    sides[i] = Math.abs(value) > tiny ? value : 0;
  }
  return above && below;
}

/** Cut a polygon where pre-activation r is `at`; put one or two polygons into `into`. */
function cut(corners: number[], map: Float64Array, r: number, at: number, into: number[][], edges: Edge[], layer: number): void {
  if (!isCut(corners, map, r, at)) {
    into.push(corners);
    return;
  }
  const count = corners.length / 2;
  const high: number[] = [], low: number[] = [], ends: number[] = [];
  for (let i = 0; i < count; i++) {
    const j = i + 1 === count ? 0 : i + 1;
    const s = sides[i], t = sides[j];
    const x = corners[2 * i], y = corners[2 * i + 1];
    if (s >= 0) high.push(x, y);
    if (s <= 0) low.push(x, y);
    if (s === 0) ends.push(x, y);
    if ((s > 0 && t < 0) || (s < 0 && t > 0)) {
      const share = s / (s - t);
      const px = x + share * (corners[2 * j] - x), py = y + share * (corners[2 * j + 1] - y);
      high.push(px, py);
      low.push(px, py);
      ends.push(px, py);
    }
  }
  into.push(high, low);
  edges.push([ends[0], ends[1], ends[2], ends[3], layer, r]);
}
