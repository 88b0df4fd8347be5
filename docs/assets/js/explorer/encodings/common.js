// What the encodings share: numbers drawn from a seed, contents, and scores of every pair from two tables of rows.

import { products } from "../../math/products.js"
import { randomState } from "../../math/random.js"
import { turnedBy, wheelOf } from "../../math/tables.js"
import { wordsOf } from "../defaults.js"

/** @import { Encoded, Once, Scores, State } from "../types.js" */

/** One vector for all positions, or a row for each.
 * @typedef {{ q: Float64Array, k: Float64Array, perToken: boolean }} Contents */
/** The two channels of each pair, its frequency, and what it is stretched by.
 * @typedef {{ pairs: Array<[number, number]>, theta: Float64Array, size?: Float64Array }} Turn */

export const APART = 100 // from the seed of contents to that of weights: neither knows of the other

/** A number for each distance from 1 - length to length - 1.
 * @type {(length: number, make: (distance: number) => number) => Float64Array} */
export const overDistances = (length, make) =>
  Float64Array.from({ length: 2 * length - 1 }, (_, i) => make(i - length + 1))

/** @param {number} count @param {() => number} draw @param {number} [scale] */
export const draws = (count, draw, scale = 1) => {
  const numbers = new Float64Array(count)
  for (let i = 0; i < count; i++) numbers[i] = scale * draw()
  return numbers
}

/** @param {number} x */
export const sigmoid = (x) => 1 / (1 + Math.exp(-x))

/** Learned numbers before they are learned. @param {State} s */
export const weights = (s) => randomState(s.seed + APART)

/** The pairs of `theta`. @param {ArrayLike<number>} theta @param {(i: number) => number[]} where */
export const pairsOf = (theta, where) => /** @type {Array<[number, number]>} */ (Array.from(theta, (_, i) => where(i)))

/** Where the word at each position has stood first: the same word holds the same vector. @param {State} s */
const sameWords = (s) => {
  const words = wordsOf(s)
  return words.length ? words.map((word) => words.indexOf(word)) : null
}

/** What queries and keys hold.
 * @param {State} s @param {Float64Array} alike what both are if they are constant @param {Once} once
 * @returns {Contents} */
export const contents = (s, alike, once) => {
  if (!["random", "tokens"].includes(s.content)) return { q: alike, k: alike, perToken: false }
  const perToken = s.content === "tokens"
  const size = perToken ? s.length * s.width : s.width
  return once("contents", [s.seed, size, s.width, s.words], () => {
    const { normal } = randomState(s.seed)
    const [q, k] = [draws(size, normal), draws(size, normal)]
    const same = perToken && sameWords(s)
    if (!same) return { q, k, perToken }
    const repeated = (/** @type {Float64Array} */ x) => {
      const rows = same.map((p) => Array.from(x.subarray(p * s.width, (p + 1) * s.width)))
      return Float64Array.from(rows.flat())
    }
    return { q: repeated(q), k: repeated(k), perToken }
  })
}

/** Rows of a table as a pattern, from position 0 on. @param {Float64Array} values @param {number} columns */
export const patternOf = (values, columns) => ({ values, rows: values.length / columns, columns, from: 0 })

/** @type {(table: Float64Array, width: number) => (n: number) => Float64Array} */
export const rowsOf = (table, width) => (n) => table.subarray(n * width, (n + 1) * width)

/** The vector at a position.
 * @type {(x: Float64Array, perToken: boolean, p: number, width: number) => Float64Array} */
export const vectorAt = (x, perToken, p, width) => (perToken ? x.subarray(p * width, (p + 1) * width) : x)

/** @param {ArrayLike<number>} a @param {ArrayLike<number>} b @param {number} [from] in b */
export const dot = (a, b, from = 0) => {
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += a[i] * b[from + i]
  return sum
}

/** Every `step`-th row of a table. @param {Float64Array} rows @param {number} width @param {number} step */
const thinned = (rows, width, step) => {
  if (step === 1) return rows
  const thin = new Float64Array(Math.ceil(rows.length / width / step) * width)
  for (let from = 0, to = 0; from < rows.length; from += step * width, to += width)
    thin.set(rows.subarray(from, from + width), to)
  return thin
}

/** The products of all rows: one by one, a query at a time, and as many as a picture shows.
 * @type {(once: Once, what: unknown[], q: Float64Array, k: Float64Array, width: number) => Scores} */
export const dots = (once, what, q, k, width) => ({
  cell: (m, n) => dot(rowsOf(q, width)(m), k, n * width),
  line: (m) => {
    const query = rowsOf(q, width)(m)
    const scores = new Float64Array(k.length / width)
    for (let n = 0; n < scores.length; n++) scores[n] = dot(query, k, n * width)
    return scores
  },
  grid: (step) =>
    once("products", [...what, step], () => {
      const rows = thinned(q, width, step)
      return products(rows, q === k ? rows : thinned(k, width, step), width)
    }),
})

/** Scores that come a query at a time.
 * @type {(once: Once, what: unknown[], length: number, line: (m: number) => Float64Array) => Scores} */
export const lines = (once, what, length, line) => ({
  cell: (m, n) => once("line", [...what, m], () => line(m))[n],
  line,
  grid: (step) =>
    once("lines", [...what, step], () => {
      const side = Math.ceil(length / step)
      const scores = new Float64Array(side * side)
      for (let m = 0; m < side; m++) {
        const row = line(m * step)
        for (let n = 0; n < side; n++) scores[m * side + n] = row[n * step]
      }
      return scores
    }),
})

/** Scores that know their two places.
 * @type {(once: Once, what: unknown[], length: number, cell: (m: number, n: number) => number) => Scores} */
export const cells = (once, what, length, cell) => ({
  cell,
  grid: (step) =>
    once("cells", [...what, step], () => {
      const side = Math.ceil(length / step)
      return Float64Array.from({ length: side * side }, (_, i) => cell(Math.floor(i / side) * step, (i % side) * step))
    }),
})

/** The score of one query and one key at every offset m - n: each pair gives a cosine.
 * @param {ArrayLike<number>} q @param {ArrayLike<number>} k @param {Turn} turn */
export const pairScorer = (q, k, { pairs, theta, size }) => {
  const heights = new Float64Array(pairs.length)
  const starts = new Float64Array(pairs.length)
  pairs.forEach(([a, b], i) => {
    heights[i] = (size ? size[i] ** 2 : 1) * Math.hypot(q[a], q[b]) * Math.hypot(k[a], k[b])
    starts[i] = Math.atan2(q[b], q[a]) - Math.atan2(k[b], k[a])
  })
  return (/** @type {number} */ offset) => {
    let sum = 0
    for (let i = 0; i < heights.length; i++) sum += heights[i] * Math.cos(offset * theta[i] + starts[i])
    return sum
  }
}

/** Queries and keys turned by angles that grow with the position.
 * @type {(s: State, once: Once, what: unknown[], held: Contents, turn: Turn) => Encoded} */
export const turned = ({ length, width, first }, once, what, { q, k, perToken }, { pairs, theta, size }) => {
  const wheel = (/** @type {number} */ count, /** @type {number} */ from) =>
    wheelOf(count, pairs.length, (p, i) => (p + from) * theta[i], size && ((_p, i) => size[i]))
  const every = () => once("wheel", [...what, first], () => wheel(length, first))
  const values = once("queries", [...what, first], () => turnedBy(q, length, width, pairs, every()))
  const pattern = patternOf(values, width)
  if (!perToken) {
    const curve = pairScorer(q, k, { pairs, theta, size })
    const band = once("band", what, () => overDistances(length, curve))
    const keyRow = (/** @type {number} */ n) => turnedBy(k, 1, width, pairs, wheel(1, n + first))
    return { pattern, band, curve, theta, pairs, keyRow }
  }
  const keys = once("keys", [...what, first], () => turnedBy(k, length, width, pairs, every()))
  const keyRow = rowsOf(keys, width)
  return { pattern, ...dots(once, [...what, first], values, keys, width), theta, pairs, keyRow }
}
