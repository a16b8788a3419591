/** Special functions that JavaScript lacks, to about 1e-15. */

export function expit(z: number): number {
  if (z >= 0) return 1 / (1 + Math.exp(-z));
  const e = Math.exp(z);
  return e / (1 + e);
}

/** log(1 + exp(z)) without overflow. */
export function softplus(z: number): number {
  return Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));
}

const SERIES_END = 2.5;

/** erf by its series with positive terms: no cancellation. */
function series(z: number): number {
  let term = z;
  let sum = z;
  const square = 2 * z * z;
  for (let n = 3; Math.abs(term) > 1e-17 * Math.abs(sum); n += 2) {
    term *= square / n;
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
}

/** erfc for large z by its continued fraction, from the back. */
function fraction(z: number): number {
  let f = z;
  for (let n = 60; n > 0; n--) f = z + n / 2 / f;
  return Math.exp(-z * z) / (f * Math.sqrt(Math.PI));
}

export function erf(z: number): number {
  if (z !== z) return z;
  if (Math.abs(z) < SERIES_END) return z === 0 ? 0 : series(z);
  return z > 0 ? 1 - fraction(z) : fraction(-z) - 1;
}

export function erfc(z: number): number {
  if (z !== z) return z;
  if (Math.abs(z) < SERIES_END) return z === 0 ? 1 : 1 - series(z);
  return z > 0 ? fraction(z) : 2 - fraction(-z);
}

/** Entropy of a gate that is open with probability q, in bits. */
export function bits(q: number): number {
  if (q <= 0 || q >= 1) return 0;
  return -(q * Math.log2(q) + (1 - q) * Math.log2(1 - q));
}
