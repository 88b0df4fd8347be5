// All numbers of the explorer: from a state to what its panels show. No page and no pixels here.

import { softmax } from "../math/attention.js"
import { ENCODINGS } from "./encodings/index.js"
import { isLogit } from "./kinds.js"
import { settle } from "./defaults.js"

/** @import { Encoded, Once, PageData, State, View } from "./types.js" */

const WORK = 2 ** 23 // products of a redraw
const MOST = 256 // rows and columns of a picture of pairs: more would be finer than its pixels

/** @returns {Once} remembers of each name what its last parameters gave */
const memory = () => {
  /** @type {Map<string, { key: string, value: any }>} */
  const cache = new Map()
  return (name, parameters, make) => {
    const key = parameters.join()
    let last = cache.get(name)
    if (last?.key !== key) cache.set(name, (last = { key, value: make() }))
    return last.value
  }
}

/** The range of colors: as far to both sides of 0, or down from 0 where a bias only takes away.
 * @param {Float64Array} values @param {boolean} takes @param {(i: number) => boolean} [counts] */
const range = (values, takes, counts) => {
  let [low, high] = [0, 0]
  for (let i = 0; i < values.length; i++) {
    if (counts && !counts(i)) continue
    if (values[i] < low) low = values[i]
    if (values[i] > high) high = values[i]
  }
  const most = Math.max(-low, high) || 1
  return { low: -most, high: takes ? 0 : most }
}

/** From 0 to the largest. @param {Float64Array} values */
const upTo = (values) => ({ low: 0, high: values.reduce((most, x) => Math.max(most, x), 0) || 1 })

/** From the smallest to the largest, where a few words have scores of one sign.
 * @param {{ low: number, high: number }} range @param {ArrayLike<number>} values
 * @param {(i: number) => boolean} [counts] */
const narrowed = (range, values, counts = () => true) => {
  const counted = Array.from(values).filter((_, i) => counts(i))
  const [low, high] = [Math.min(...counted), Math.max(...counted)]
  return low > 0 && high > low ? { low, high } : range
}

/** A picture of all pairs, as fine as it can be seen.
 * @param {State} s @param {Encoded} encoded @param {Once} once @param {(m: number) => Float64Array} weights */
const pictured = (s, encoded, once, weights) => {
  const step = Math.ceil(s.length / MOST)
  const side = Math.ceil(s.length / step)
  if (s.softmax) {
    const values = new Float64Array(side * side)
    // rows alike, where they are so many and so wide
    const coarse = Math.ceil((s.length * side * (isLogit(s) ? 1 : s.width)) / WORK)
    for (let m = 0; m < side; m++) {
      if (m % coarse) values.copyWithin(m * side, (m - 1) * side, m * side)
      else weights(m * step).forEach((weight, n) => n % step || (values[m * side + n / step] = weight))
    }
    return { values, side, ...upTo(values.subarray(values.length >> 1)) } // the first rows, of few keys, lie above
  }
  const takes = ["alibi", "kerple", "sandwich"].includes(s.encoding)
  if (encoded.band) {
    const counts = s.causal ? (/** @type {number} */ i) => i >= s.length - 1 : undefined
    const all = range(encoded.band, takes, counts)
    return { values: null, side: s.length, ...(s.words ? narrowed(all, encoded.band, counts) : all) }
  }
  const values = /** @type {NonNullable<Encoded["grid"]>} */ (encoded.grid)(step)
  const counts = s.causal ? (/** @type {number} */ i) => i % side <= i / side : undefined
  const all = range(values, takes, counts)
  return { values, side, ...(s.words ? narrowed(all, values, counts) : all) }
}

/** @param {PageData} data @returns {(state: State) => View} */
export const explorer = (data) => {
  const remembered = memory()
  return (state) => {
    const s = settle(state, data)
    const { length, causal } = s
    /** @type {Once} */
    const once = (name, parameters, make) => remembered(name, [s.encoding, ...parameters], make)
    const encoded = ENCODINGS[s.encoding](s, data, once)
    const { pattern, band = null, plain = null, theta = null, pairs = [], curve = null, plainCurve = null } = encoded
    const cell = /** @type {NonNullable<Encoded["cell"]>} */ (encoded.cell)
    const score = (/** @type {number} */ m, /** @type {number} */ n) => (band ? band[m - n + length - 1] : cell(m, n))
    const scores = (/** @type {number} */ m) =>
      encoded.line?.(m) ?? Float64Array.from({ length }, (_, n) => score(m, n))
    const scale = isLogit(s) ? 1 : s.width ** -0.5
    const weights = (/** @type {number} */ m) =>
      softmax(scores(m).map((x, n) => (causal && n > m ? -Infinity : x * scale)))
    const row = s.softmax ? weights : scores
    let latestQuery = -1
    /** @type {ArrayLike<number>} */
    let latestWeights = []
    const weight = (/** @type {number} */ m, /** @type {number} */ n) => {
      if (m !== latestQuery) latestWeights = weights((latestQuery = m))
      return latestWeights[n]
    }
    const at = s.softmax ? weight : score
    const queryRow = (/** @type {number} */ m) =>
      pattern.values.subarray(m * pattern.columns, (m + 1) * pattern.columns)
    const takes = ["alibi", "kerple", "sandwich"].includes(s.encoding)
    return {
      state: s,
      pattern: { ...pattern, ...(s.encoding === "forget" ? upTo(pattern.values) : range(pattern.values, takes)) },
      band: s.softmax ? null : band,
      ...pictured(s, encoded, once, weights),
      ...{ plain: s.softmax ? null : plain, curve, plainCurve, theta, pairs, scale },
      ...{ far: data.far, score, at, row, weights, queryRow, keyRow: encoded.keyRow ?? queryRow },
    }
  }
}

/** What a pair adds to the product. @param {View} view @param {number} pair @param {number} m @param {number} n */
export const share = ({ pairs, queryRow, keyRow }, pair, m, n) => {
  const [q, k] = [queryRow(m), keyRow(n)]
  return pairs[pair].reduce((sum, channel) => sum + q[channel] * k[channel], 0)
}

/** The pair of a column, or -1. @param {View} view @param {number} column */
export const pairOf = ({ pairs }, column) => pairs.findIndex((pair) => pair.includes(column))

const DISTANCES = 640 // at which a response over a logarithmic axis is drawn

/** Whole distances from 1 to the farthest, each a little farther than the one before. @param {number} far */
export const farDistances = (far) => {
  const distances = Array.from({ length: DISTANCES }, (_, i) => Math.round(far ** (i / (DISTANCES - 1))))
  return Float64Array.from(new Set(distances))
}
