// Longer tables from short ones: new row j is the sum of old rows p, weighted by W[j, p].
// posenc.add.learned in another language.

import { attend } from "./attention.js"

/** The matrix W of a longer text table, one row after the other.
 * @param {string} way "clamp", "tile", "interpolate" or "extrapolate" @param {number} old rows
 * @param {number} length at least `old` */
export const extended = (way, old, length) => {
  const weights = new Float64Array(length * old)
  const put = (/** @type {number} */ j, /** @type {number} */ p, /** @type {number} */ weight) => {
    weights[j * old + Math.min(p, old - 1)] += weight
  }
  for (let j = 0; j < length; j++) {
    const last = old - 1
    const position = way === "interpolate" && length > 1 ? (j * last) / (length - 1) : j
    if (way === "clamp" || way === "tile") put(j, way === "tile" ? j % old : j, 1)
    else {
      const low = Math.min(Math.floor(position), last - (way === "extrapolate" ? 1 : 0))
      put(j, low, 1 - (position - low))
      put(j, low + 1, position - low)
    }
  }
  return weights
}

/** Which position of the old table each new row is taken from. @param {ArrayLike<number>} weights @param {number} old */
export const sources = (weights, old) => {
  const positions = new Float64Array(weights.length / old)
  for (let i = 0; i < weights.length; i++) positions[Math.floor(i / old)] += weights[i] * (i % old)
  return positions
}

/** What a causal head attends to with the new rows, if the logit of old row p was `sharpness` with row p - back, and 0
 * with all others.
 * @type {(weights: ArrayLike<number>, old: number, back: number, sharpness: number) => Float64Array} */
export const lookBack = (weights, old, back, sharpness) => {
  const length = weights.length / old
  const logits = new Float64Array(length * length)
  for (let m = 0; m < length; m++) {
    for (let p = back; p < old; p++) {
      const share = sharpness * weights[m * old + p]
      if (share) for (let n = 0; n <= m; n++) logits[m * length + n] += share * weights[n * old + p - back]
    }
  }
  return attend(logits, length, true)
}
