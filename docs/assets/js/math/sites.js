// One of the four numbers that make a rotation, rounded: what becomes of a pair, and of a logit.

import { stored } from "./rounding.js"

/** @import { Kind } from "./rounding.js" */
/** @typedef {"position" | "frequency" | "angle" | "cosine"} Site what is rounded on the way */

/** A number in a type, as torch casts a float64: by way of float32. @param {number} value @param {Kind} kind */
export const cast = (value, kind) => stored(Math.fround(value), kind)

/** Cosine and sine of a pair at a position.
 * @type {(position: number, theta: number, site: Site, kind: Kind) => [number, number]} */
export const hand = (position, theta, site, kind) => {
  const round = (/** @type {Site} */ here, /** @type {number} */ x) => (site === here ? cast(x, kind) : x)
  const angle = round("angle", round("position", position) * round("frequency", theta))
  return [round("cosine", Math.cos(angle)), round("cosine", Math.sin(angle))]
}

/** How far the turn from a key at n to a query at m, of one pair, lies from what it should be.
 * @type {(m: number, n: number, theta: number, site: Site, kind: Kind) => number} */
export const miss = (m, n, theta, site, kind) => {
  const [c, s] = hand(m, theta, site, kind)
  const [a, b] = hand(n, theta, site, kind)
  const wedge = theta * (m - n)
  return Math.hypot(c * a + s * b - Math.cos(wedge), s * a - c * b - Math.sin(wedge))
}

/** The root of the mean square: the error of a logit, from those of its pairs. @param {ArrayLike<number>} values */
export const rootMean = (values) => Math.hypot(...Array.from(values)) / Math.sqrt(values.length)

/** Whole places spread over column j of a logarithmic axis, on which so many columns reach from 1 to `last`.
 * @type {(j: number, columns: number, last: number, count: number) => number[]} */
export const placesIn = (j, columns, last, count) =>
  Array.from({ length: count }, (_, s) => Math.round(last ** ((j + (s + 0.5) / count) / columns)))

/** The place of the query from which on a pair may be a radian off, at worst: none for the cosine.
 * @param {number} theta @param {Site} site @param {Kind} kind
 * @param {number} back the distance of the key, or NaN for a key at place 0 */
export const radianOff = (theta, site, { bits }, back) => {
  const sum = 2 ** bits / theta // m + n, or the distance, where u θ times it is 1
  if (site === "cosine") return Infinity
  if (Number.isNaN(back)) return sum
  if (site === "frequency") return back > sum ? back : Infinity
  return Math.max((sum + back) / 2, back, site === "position" ? 2 ** bits : 0)
}
