/** A unit of the catalogue with numbers for its dials. */
import { CATALOGUE } from "./catalogue";
import { bits } from "./functions";

type Formula = (x: number, p: number[], k: number) => number;

export interface Dial {
  name: string;
  label: string;
  start: number;
  low: number;
  high: number;
  option: boolean;
}

export interface CatalogueUnit {
  key: string;
  unit: string;
  title: string;
  family: string;
  formula: string;
  fixed: Record<string, string>;
  channels: boolean;
  context: string;
  parts: number;
  breaks: number[] | null;
  dials: Dial[];
  value: Formula;
  slope: Formula;
}

export interface Choice {
  key: string;
  numbers: number[];
}

const FAR = 1e6;
const PAU_FIT = 3; // outside of this interval a rational unit follows no activation function

export function entryOf(key: string): CatalogueUnit {
  return CATALOGUE.find((entry) => entry.key === key) ?? CATALOGUE[0];
}

export function starts(key: string): number[] {
  return entryOf(key).dials.map((dial) => dial.start);
}

interface Line {
  slope: number;
  offset: number;
}

function isSame(one: Line, other: Line): boolean {
  return Math.abs(one.slope - other.slope) < 1e-9 && Math.abs(one.offset - other.offset) < 1e-9;
}

export class Unit {
  readonly parts: number;
  /** Where the slope jumps if the unit is made of straight lines, else null. */
  readonly breaks: number[] | null;
  /** By piece and part; empty for soft units. */
  readonly pieces: Line[][] = [];
  private readonly value_: Formula;
  private readonly slope_: Formula;
  private readonly p: number[];
  private readonly secant: boolean;
  private readonly least: number;
  private readonly most: number;

  constructor(readonly choice: Choice) {
    let entry = entryOf(choice.key);
    let numbers = choice.numbers;
    if (entry.unit === "beta_vq") {
      const beta = numbers[0];
      if (beta >= 1) {
        entry = entryOf(entry.fixed.pieces);
        numbers = starts(entry.key);
      } else {
        numbers = [beta / (1 - beta)];
      }
    }
    this.value_ = entry.value;
    this.slope_ = entry.slope;
    this.p = numbers;
    this.parts = entry.parts;
    this.breaks = entry.breaks && this.cut(entry.breaks);
    this.secant = Math.abs(this.value(0, 0)) < 1e-12;
    const far = entry.unit === "pau" ? PAU_FIT : FAR;
    const left = this.gate(-far);
    const right = this.gate(far);
    const turned = Math.abs(left) > Math.abs(right);
    this.least = turned ? right : left;
    this.most = turned ? left : right;
  }

  /** Find the pieces, and return the breaks between different ones: PWLU starts as ReLU. */
  private cut(breaks: number[]): number[] {
    const kinks: number[] = [];
    for (let r = 0; r <= breaks.length; r++) {
      const left = r === 0 ? breaks[0] - 2 : breaks[r - 1];
      const right = r === breaks.length ? breaks[breaks.length - 1] + 2 : breaks[r];
      const middle = (left + right) / 2;
      const piece = [];
      for (let k = 0; k < this.parts; k++) {
        const slope = this.slope(middle, k);
        piece.push({ slope, offset: this.value(middle, k) - slope * middle });
      }
      const last = this.pieces[this.pieces.length - 1];
      if (last && piece.every((line, k) => isSame(line, last[k]))) continue;
      if (last) kinks.push(breaks[r - 1]);
      this.pieces.push(piece);
    }
    return kinks;
  }

  value(x: number, k: number): number {
    return this.value_(x, this.p, k);
  }

  slope(x: number, k: number): number {
    return this.slope_(x, this.p, k);
  }

  /** The factor that multiplies the response: the secant, or the slope if the output at 0 is not 0. */
  gate(x: number, k = 0): number {
    if (!this.secant || Math.abs(x) < 1e-9) return this.slope(x, k);
    return this.value(x, k) / x;
  }

  get hasFactors(): boolean {
    return this.secant;
  }

  /** The gate on a scale from 0, where the unit passes least, to 1, where it passes most. */
  open(x: number, k = 0): number {
    if (this.breaks) {
      const { least, most } = this;
      const gate = this.gate(x, k);
      if (this.parts > 1) return gate !== 0 ? 1 : 0;
      if (most === least) return 1;
      return Math.min(1, Math.max(0, (gate - least) / (most - least)));
    }
    const range = this.most - this.least;
    if (Math.abs(range) < 1e-6) return 1;
    const q = (this.gate(x, k) - this.least) / range;
    return Math.min(1, Math.max(0, q));
  }

  /** How undecided the gate is: 0 for a switch, 1 for half open. */
  entropy(x: number): number {
    return this.breaks ? 0 : bits(this.open(x));
  }

  /** Slope and offset of the line that stands for the unit at x when its gate is frozen. */
  frozen(x: number, k: number): [number, number] {
    if (this.breaks) {
      const piece = this.pieces[this.piece(x)][k];
      return [piece.slope, piece.offset];
    }
    const slope = this.gate(x, k);
    return [slope, this.value(x, k) - slope * x];
  }

  piece(x: number): number {
    const breaks = this.breaks as number[];
    let r = 0;
    while (r < breaks.length && x > breaks[r]) r++;
    return r;
  }
}
