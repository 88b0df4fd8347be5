// Longer tables from short ones: new row j is the sum of old rows p, weighted by W[j, p].
// posenc.add.learned in another language.

import { attend } from "./attention.js"

/** The matrix W of a longer text table, one row after the other.
 * @param {string} way "clamp", "tile", "stretch" or "extrapolate" @param {number} old rows
 * @param {number} length at least `old` */
export const extended = (way, old, length) => {
  const weights = new Float64Array(length * old)
  const put = (/** @type {number} */ j, /** @type {number} */ p, /** @type {number} */ weight) => {
    weights[j * old + Math.min(p, old - 1)] += weight
  }
  for (let j = 0; j < length; j++) {
    const last = old - 1
    const place = way === "stretch" && length > 1 ? (j * last) / (length - 1) : j
    if (way === "clamp" || way === "tile") put(j, way === "tile" ? j % old : j, 1)
    else {
      const low = Math.min(Math.floor(place), last - (way === "extrapolate" ? 1 : 0))
      put(j, low, 1 - (place - low))
      put(j, low + 1, place - low)
    }
  }
  return weights
}

/** Which place of the old table each new row is taken from. @param {ArrayLike<number>} weights @param {number} old */
export const sources = (weights, old) => {
  const places = new Float64Array(weights.length / old)
  for (let i = 0; i < weights.length; i++) places[Math.floor(i / old)] += weights[i] * (i % old)
  return places
}

/** Where a causal head looks with the new rows, if an old row p scored `sharpness` with row p - back, and 0 with all
 * others.
 * @type {(weights: ArrayLike<number>, old: number, back: number, sharpness: number) => Float64Array} */
export const lookBack = (weights, old, back, sharpness) => {
  const length = weights.length / old
  const scores = new Float64Array(length * length)
  for (let m = 0; m < length; m++) {
    for (let p = back; p < old; p++) {
      const asked = sharpness * weights[m * old + p]
      if (asked) for (let n = 0; n <= m; n++) scores[m * length + n] += asked * weights[n * old + p - back]
    }
  }
  return attend(scores, length, true)
}
