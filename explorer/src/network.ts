/** A network 2 - m - m - 2 with one unit, trained by Adam on cross-entropy in float64. */
import { COUNTS, type Points, STREAM, uniform } from "./data";
import { Unit } from "./units";

export interface Layer {
  rows: number;
  cols: number;
  weight: Float64Array;
  bias: Float64Array;
  weightGrad: Float64Array;
  biasGrad: Float64Array;
  moments: Float64Array[];
}

const BETA1 = 0.9;
const BETA2 = 0.999;
const EPS = 1e-8;
/** Rows of weights are numbered apart, so that a unit with more outputs shares the weights of the others. */
export const ROW = 4096;

function makeLayer(rows: number, cols: number, seed: number, place: number, fanIn: number): Layer {
  const weight = new Float64Array(rows * cols);
  const bias = new Float64Array(rows);
  const reach = Math.sqrt(6 / fanIn);
  const stream = STREAM.weights + 2 * place;
  for (let r = 0; r < rows; r++) {
    for (let c = 0; c < cols; c++) weight[r * cols + c] = reach * (2 * uniform(seed, stream, r * ROW + c) - 1);
    bias[r] = (2 * uniform(seed, stream + 1, r) - 1) / Math.sqrt(fanIn);
  }
  const moments = [weight, weight, bias, bias].map((array) => new Float64Array(array.length));
  return { rows, cols, weight, bias, weightGrad: new Float64Array(rows * cols), biasGrad: new Float64Array(rows), moments };
}

export class Network {
  readonly layers: Layer[];
  readonly z: Float64Array[];
  readonly a: Float64Array[];
  private readonly da: Float64Array[];
  private readonly dz: Float64Array[];
  readonly parts: number;
  private steps = 0;

  constructor(readonly width: number, public unit: Unit, seed: number) {
    this.parts = unit.parts;
    const wide = width * unit.parts;
    this.layers = [
      makeLayer(width, 2, seed, 0, 2),
      makeLayer(width, wide, seed, 1, width),
      makeLayer(2, wide, seed, 2, width),
    ];
    this.z = [new Float64Array(width), new Float64Array(width), new Float64Array(2)];
    this.a = [new Float64Array(2), new Float64Array(wide), new Float64Array(wide)];
    this.da = [new Float64Array(2), new Float64Array(wide), new Float64Array(wide)];
    this.dz = this.z.map((z) => new Float64Array(z.length));
  }

  forward(x: number, y: number): Float64Array {
    this.a[0][0] = x;
    this.a[0][1] = y;
    for (let l = 0; l < 3; l++) {
      const { rows, cols, weight, bias } = this.layers[l];
      const input = this.a[l];
      const z = this.z[l];
      for (let r = 0; r < rows; r++) {
        let sum = bias[r];
        const start = r * cols;
        for (let c = 0; c < cols; c++) sum += weight[start + c] * input[c];
        z[r] = sum;
      }
      if (l < 2) this.activate(z, this.a[l + 1]);
    }
    return this.z[2];
  }

  /** Parts are concatenated, as torch.cat does. */
  private activate(z: Float64Array, out: Float64Array): void {
    const { unit, width } = this;
    for (let k = 0; k < this.parts; k++) for (let r = 0; r < width; r++) out[k * width + r] = unit.value(z[r], k);
  }

  train(points: Points, seed: number, step: number, rate: number): void {
    for (const layer of this.layers) {
      layer.weightGrad.fill(0);
      layer.biasGrad.fill(0);
    }
    const count = points.x.length;
    for (let j = 0; j < COUNTS.batch; j++) {
      this.backward(points, Math.floor(uniform(seed, STREAM.batch + step, j) * count));
    }
    this.steps++;
    const first = 1 - BETA1 ** this.steps;
    const second = Math.sqrt(1 - BETA2 ** this.steps);
    for (const layer of this.layers) {
      adam(layer.weight, layer.weightGrad, layer.moments[0], layer.moments[1], rate / first, second);
      adam(layer.bias, layer.biasGrad, layer.moments[2], layer.moments[3], rate / first, second);
    }
  }

  private backward(points: Points, i: number): void {
    const out = this.forward(points.x[i], points.y[i]);
    const { width, unit } = this;
    const p1 = 1 / (1 + Math.exp(out[0] - out[1]));
    const error = (points.label[i] ? p1 - 1 : p1) / COUNTS.batch;
    this.dz[2][0] = -error;
    this.dz[2][1] = error;
    for (let l = 2; l >= 0; l--) {
      const { rows, cols, weight, weightGrad, biasGrad } = this.layers[l];
      const dz = this.dz[l];
      const input = this.a[l];
      const da = this.da[l].fill(0);
      for (let r = 0; r < rows; r++) {
        const d = dz[r];
        if (d === 0) continue;
        const start = r * cols;
        biasGrad[r] += d;
        for (let c = 0; c < cols; c++) {
          weightGrad[start + c] += d * input[c];
          da[c] += d * weight[start + c];
        }
      }
      if (l === 0) break;
      const z = this.z[l - 1];
      const below = this.dz[l - 1];
      for (let r = 0; r < width; r++) {
        let sum = 0;
        for (let k = 0; k < this.parts; k++) sum += da[k * width + r] * unit.slope(z[r], k);
        below[r] = sum;
      }
    }
  }

  /** Mean cross-entropy and the share of points that are classified correctly. */
  measure(points: Points): { loss: number; accuracy: number } {
    let loss = 0;
    let right = 0;
    const count = points.x.length;
    for (let i = 0; i < count; i++) {
      const out = this.forward(points.x[i], points.y[i]);
      const margin = points.label[i] ? out[1] - out[0] : out[0] - out[1];
      loss += margin > 0 ? Math.log1p(Math.exp(-margin)) : Math.log1p(Math.exp(margin)) - margin;
      right += margin > 0 ? 1 : 0;
    }
    return { loss: loss / Math.max(count, 1), accuracy: right / Math.max(count, 1) };
  }

  /** Mean opening of each gate over the points, and whether its slope is 0 at all of them. */
  gates(points: Points): { open: number[]; dead: boolean[] }[] {
    const { width, unit } = this;
    const result = [0, 1].map(() => ({ open: new Array(width).fill(0), dead: new Array(width).fill(true) }));
    const count = points.x.length;
    for (let i = 0; i < count; i++) {
      this.forward(points.x[i], points.y[i]);
      for (let l = 0; l < 2; l++) {
        for (let r = 0; r < width; r++) {
          const z = this.z[l][r];
          result[l].open[r] += unit.open(z) / count;
          for (let k = 0; k < this.parts; k++) if (unit.slope(z, k) !== 0) result[l].dead[r] = false;
        }
      }
    }
    return result;
  }

  /** The affine map with the gates frozen at a point: rows of A, then b. */
  affine(x: number, y: number): { a: number[][]; b: number[]; open: number[]; paths: number } {
    this.forward(x, y);
    let map = { a: [[1, 0], [0, 1]], b: [0, 0] };
    const open: number[] = [];
    let paths = 2 * 2;
    for (let l = 0; l < 3; l++) {
      map = this.compose(l, map);
      if (l === 2) break;
      const next = { a: [] as number[][], b: [] as number[] };
      let opened = 0;
      let passing = 0;
      for (let k = 0; k < this.parts; k++) {
        for (let r = 0; r < this.width; r++) {
          const z = this.z[l][r];
          const [slope, offset] = this.unit.frozen(z, k);
          next.a.push(map.a[r].map((v) => slope * v));
          next.b.push(slope * map.b[r] + offset);
          if (k === 0 && this.unit.open(z) > 0.5) opened++;
          if (this.unit.breaks ? slope !== 0 : this.unit.open(z, k) > 0.5) passing++;
        }
      }
      open.push(opened);
      paths *= passing;
      map = next;
    }
    return { ...map, open, paths };
  }

  private compose(l: number, map: { a: number[][]; b: number[] }): { a: number[][]; b: number[] } {
    const { rows, cols, weight, bias } = this.layers[l];
    const a: number[][] = [];
    const b: number[] = [];
    for (let r = 0; r < rows; r++) {
      let s = 0, t = 0, u = bias[r];
      for (let c = 0; c < cols; c++) {
        const w = weight[r * cols + c];
        s += w * map.a[c][0];
        t += w * map.a[c][1];
        u += w * map.b[c];
      }
      a.push([s, t]);
      b.push(u);
    }
    return { a, b };
  }

  export(): { weight: number[][]; bias: number[] }[] {
    return this.layers.map(({ rows, cols, weight, bias }) => ({
      weight: Array.from({ length: rows }, (_, r) => Array.from(weight.subarray(r * cols, (r + 1) * cols))),
      bias: Array.from(bias),
    }));
  }
}

function adam(p: Float64Array, g: Float64Array, m: Float64Array, v: Float64Array, rate: number, second: number): void {
  for (let i = 0; i < p.length; i++) {
    m[i] = BETA1 * m[i] + (1 - BETA1) * g[i];
    v[i] = BETA2 * v[i] + (1 - BETA2) * g[i] * g[i];
    p[i] -= (rate * m[i]) / (Math.sqrt(v[i]) / second + EPS);
  }
}
