// What is added to a logit for an offset. posenc.bias.alibi, t5, kerple and fire in another language.

/** @param {number} heads @returns {number[]} */
export const alibiSlopes = (heads) => {
  const power = 2 ** Math.floor(Math.log2(heads))
  const own = Array.from({ length: power }, (_, i) => 2 * (i + 1))
  const more = Array.from({ length: heads - power }, (_, i) => 2 * i + 1)
  return [...own, ...more].map((step) => 2 ** ((-4 * step) / power))
}

/** @param {number} offset key - query @param {number} slope */
export const alibi = (offset, slope) => -slope * Math.abs(offset)

/** The distances at which the buckets 1, 2, … of one direction start, in whole numbers as T5's logarithm means them.
 * @type {(buckets: number, maxDistance: number, bidirectional: boolean) => number[]} */
export const t5Starts = (buckets, maxDistance, bidirectional) => {
  const rows = buckets / (bidirectional ? 2 : 1)
  const exact = Math.floor(rows / 2)
  const rest = rows - exact
  const starts = Array.from({ length: exact }, (_, i) => i + 1)
  for (let k = 1; k < rest; k++) {
    const bound = BigInt(maxDistance) ** BigInt(k) * BigInt(exact) ** BigInt(rest - k)
    let start = BigInt(Math.floor(exact * (maxDistance / exact) ** (k / rest)))
    while (start ** BigInt(rest) < bound) start += 1n
    starts.push(Number(start))
  }
  return starts
}

/** @param {number} offset key - query @param {number[]} starts @param {boolean} bidirectional */
export const t5Bucket = (offset, starts, bidirectional) => {
  const distance = bidirectional ? Math.abs(offset) : Math.max(-offset, 0)
  const after = starts.findIndex((start) => start > distance)
  return (after < 0 ? starts.length : after) + (bidirectional && offset > 0 ? starts.length + 1 : 0)
}

/** @param {number} offset @param {number} r1 @param {number} r2 @param {string} form "log" or "power" */
export const kerple = (offset, r1, r2, form) =>
  -r1 * (form === "log" ? Math.log1p(r2 * Math.abs(offset)) : Math.abs(offset) ** r2)

/** @typedef {{ c: number, multiplier: number, threshold: number, eps: number, hidden: ArrayLike<number>,
 *   hiddenBias: ArrayLike<number>, out: ArrayLike<number>, outBias: number }} FireHead */

/** How far the key is, as a share of how far the query can look.
 * @type {(m: number, n: number, head: FireHead) => number} */
export const fireShare = (m, n, { c, multiplier, threshold, eps }) => {
  const reach = Math.max(Math.abs(multiplier) * threshold, Math.abs(m), Math.abs(n))
  return Math.log1p(Math.abs(c) * Math.abs(m - n)) / (Math.log1p(Math.abs(c) * reach) + eps)
}

/** The learned curve over shares. @param {number} share @param {FireHead} head */
export const fireCurve = (share, { hidden, hiddenBias, out, outBias }) => {
  let sum = outBias
  for (let u = 0; u < hidden.length; u++) sum += out[u] * Math.max(hidden[u] * share + hiddenBias[u], 0)
  return sum
}

/** @param {number} m @param {number} n @param {FireHead} head */
export const fire = (m, n, head) => fireCurve(fireShare(m, n, head), head)

/** Sandwich's sum, before the slope of a head. posenc.bias.sandwich
 * @type {(offset: number, dim: number, base: number) => number} */
export const sandwich = (offset, dim, base) => {
  let sum = 0
  for (let k = 1; k <= dim / 2; k++) sum += Math.cos(offset * base ** ((-2 * k) / dim)) - 1
  return sum
}
