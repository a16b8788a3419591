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
  for (let l = 0; l < 2; l++) {
    const next: Cell[] = [];
    for (const cell of cells) {
      let parts = [cell.corners];
      for (let r = 0; r < network.width; r++) {
        for (const at of breaks) {
          const split: number[][] = [];
          for (const corners of parts) cut(corners, cell.map, r, at, split, edges, l);
          parts = split;
        }
      }
      for (const corners of parts) next.push({ corners, map: passed(network, l, cell.map, corners) });
    }
    cells = next;
  }
  const regions = cells.map(({ corners, map }) => ({ corners, gx: map[3] - map[0], gy: map[4] - map[1], c: map[5] - map[2] }));
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

/** The affine functions of the next layer on one region. */
function passed(network: Network, l: number, map: Float64Array, corners: number[]): Float64Array {
  const { unit, width, parts } = network;
  let x = 0, y = 0;
  for (let i = 0; i < corners.length; i += 2) {
    x += corners[i];
    y += corners[i + 1];
  }
  x /= corners.length / 2;
  y /= corners.length / 2;
  const inputs = new Float64Array(3 * width * parts);
  for (let r = 0; r < width; r++) {
    const piece = unit.pieces[unit.piece(map[3 * r] * x + map[3 * r + 1] * y + map[3 * r + 2])];
    for (let k = 0; k < parts; k++) {
      const { slope, offset } = piece[k];
      const at = 3 * (k * width + r);
      inputs[at] = slope * map[3 * r];
      inputs[at + 1] = slope * map[3 * r + 1];
      inputs[at + 2] = slope * map[3 * r + 2] + offset;
    }
  }
  return compose(network, l + 1, inputs);
}

const sides = new Float64Array(512);

/** Cut a polygon where pre-activation r is `at`; put one or two polygons into `into`. */
function cut(corners: number[], map: Float64Array, r: number, at: number, into: number[][], edges: Edge[], layer: number): void {
  const gx = map[3 * r], gy = map[3 * r + 1], c = map[3 * r + 2] - at;
  const count = corners.length / 2;
  const tiny = SLIVER * ((Math.abs(gx) + Math.abs(gy)) * REACH + Math.abs(c));
  let above = false, below = false;
  for (let i = 0; i < count; i++) {
    const value = gx * corners[2 * i] + gy * corners[2 * i + 1] + c;
    sides[i] = value > tiny ? value : value < -tiny ? value : 0;
    if (sides[i] > 0) above = true;
    else if (sides[i] < 0) below = true;
  }
  if (!above || !below) {
    into.push(corners);
    return;
  }
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
