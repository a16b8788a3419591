/** Seeded numbers and the problems. The code that the page copies has the same formulas in Python. */

/** A number between 0 and 1 from three counters: the same in every browser and in Python. */
export function uniform(seed: number, stream: number, index: number): number {
  let h = Math.imul(seed + 1, 0x85ebca6b) + Math.imul(stream + 1, 0xc2b2ae35) + Math.imul(index + 1, 0x27d4eb2f);
  h ^= h >>> 16;
  h = Math.imul(h, 0x7feb352d);
  h ^= h >>> 15;
  h = Math.imul(h, 0x846ca68b);
  h ^= h >>> 16;
  return ((h >>> 0) + 0.5) / 4294967296;
}

export interface Points {
  x: Float64Array;
  y: Float64Array;
  label: Uint8Array;
}

export const STREAM = { train: 0, test: 10, batch: 1000, weights: 100 };
export const COUNTS = { train: 240, test: 400, batch: 32 };
export const PROBLEMS = ["spiral", "rings", "moons", "xor", "own"] as const;
export type Problem = (typeof PROBLEMS)[number];
export const PROBLEM_NAMES: Record<Problem, string> = {
  spiral: "spiral",
  rings: "rings",
  moons: "moons",
  xor: "xor",
  own: "your own points",
};

type Place = (u: number, v: number, label: number) => [number, number];
const PLACES: Record<Exclude<Problem, "own">, { place: Place; noise: number }> = {
  spiral: {
    place: (u, _v, label) => {
      const r = Math.sqrt(u);
      const angle = 3 * Math.PI * r + Math.PI * label;
      return [2.5 * r * Math.cos(angle), 2.5 * r * Math.sin(angle)];
    },
    noise: 0.08,
  },
  rings: {
    place: (u, _v, label) => {
      const r = 1 + 1.2 * label;
      return [r * Math.cos(2 * Math.PI * u), r * Math.sin(2 * Math.PI * u)];
    },
    noise: 0.18,
  },
  moons: {
    place: (u, _v, label) => {
      const side = 1 - 2 * label;
      return [side * (1.5 * Math.cos(Math.PI * u) - 0.7), side * (1.5 * Math.sin(Math.PI * u) - 0.5)];
    },
    noise: 0.18,
  },
  xor: {
    place: (u, v, label) => {
      const x = 5 * u - 2.5;
      const same = x > 0 ? 1 : -1;
      return [x, (1 - 2 * label) * same * 2.5 * v];
    },
    noise: 0.08,
  },
};

export function makePoints(problem: Exclude<Problem, "own">, seed: number, stream: number, count: number): Points {
  const points: Points = { x: new Float64Array(count), y: new Float64Array(count), label: new Uint8Array(count) };
  const { place, noise } = PLACES[problem];
  for (let i = 0; i < count; i++) {
    const label = i % 2;
    const [x, y] = place(uniform(seed, stream, i), uniform(seed, stream + 1, i), label);
    const radius = noise * Math.sqrt(-2 * Math.log(uniform(seed, stream + 2, i)));
    const angle = 2 * Math.PI * uniform(seed, stream + 3, i);
    points.x[i] = x + radius * Math.cos(angle);
    points.y[i] = y + radius * Math.sin(angle);
    points.label[i] = label;
  }
  return points;
}

/** Own points are [x, y, label], rounded so that the address, the code and the page have the same numbers. */
export type OwnPoint = [number, number, number];

export function ownPoints(own: OwnPoint[]): Points {
  return {
    x: Float64Array.from(own, (point) => point[0]),
    y: Float64Array.from(own, (point) => point[1]),
    label: Uint8Array.from(own, (point) => point[2]),
  };
}
