// Positions and angles in a type of few bits, and what a head can still tell apart. torch's number types in another
// language.

import { largestShare } from "./bags.js"

/** Significant bits, and the smallest and largest exponent of 2.
 * @typedef {{ bits: number, low: number, high: number }} Kind */

/** The nearest number that a type has, of two equally near ones the one whose last bit is 0.
 * @type {(value: number, kind: Kind) => number} */
export const stored = (value, { bits, low, high }) => {
  if (!value || !Number.isFinite(value)) return value
  const unit = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(value))), low) - bits + 1)
  const down = Math.floor(value / unit)
  const over = value / unit - down
  const near = (over > 0.5 || (over === 0.5 && down % 2 !== 0) ? down + 1 : down) * unit
  return Math.abs(near) < 2 ** (high + 1) ? near : Math.sign(near) * Infinity
}

/** The angles of all pairs, with position, frequencies and products in a type.
 * @type {(position: number, theta: ArrayLike<number>, kind: Kind) => Float64Array} */
export const angles = (position, theta, kind) =>
  Float64Array.from(theta, (t) => stored(stored(position, kind) * stored(t, kind), kind))

/** Which of the tokens up to token m lie nearest to the place `back` before it.
 * @param {number[]} places as stored @param {number} m @param {number} back */
export const alike = (places, m, back) => {
  const miss = places.slice(0, m + 1).map((place) => Math.abs(place - (places[m] - back)))
  const least = Math.min(...miss)
  return miss.flatMap((far, n) => (far === least ? [n] : []))
}

/** The share of right answers to "which token stood `back` before?", if tokens stored at one place look alike.
 * @type {(places: number[], back: number, tokens: number) => number} */
export const rightShare = (places, back, tokens) => {
  /** @type {Map<number, number>} */
  const shares = new Map() // by the number of tokens that look alike: the answer is their most common
  let sum = 0
  for (let m = back; m < places.length; m++) {
    const near = alike(places, m, back)
    if (!shares.has(near.length)) shares.set(near.length, largestShare(near.length, tokens))
    sum += near.includes(m - back) ? Number(shares.get(near.length)) : 1 / tokens
  }
  return sum / (places.length - back)
}
