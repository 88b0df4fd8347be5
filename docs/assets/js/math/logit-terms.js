// A logit is a sum of four terms: content with content, content with position, position with content, and position
// with position.
// posenc.score.shaw, transformer_xl and deberta, posenc.bias.t5, RoPE and added sinusoids in another language.

import { scorer } from "./rope.js"
import { sinusoidal } from "./waves.js"

/** @typedef {ArrayLike<number>} Row */
/** @typedef {Record<string, any>} Learned the package's parameters, `theta`, and `row`, which row of a table an offset
 *   reads */

/** @param {Row} a @param {Row} b */
const dot = (a, b) => Array.from(a).reduce((sum, value, i) => sum + value * b[i], 0)

/** A matrix times PE(p). @param {Row[]} matrix @param {Float64Array} theta @param {number} p @param {string} order */
const projected = (matrix, theta, p, order) => {
  const sinusoid = sinusoidal(1, 2 * theta.length, theta, order, p)
  return matrix.map((row) => dot(row, sinusoid))
}

/** The terms before the scale, but for content with content.
 * @type {Record<string, (q: Row, k: Row, m: number, n: number, learned: Learned) => number[]>} */
const TERMS = {
  added: (q, k, m, n, { theta, toQuery, toKey }) => {
    const here = projected(toQuery, theta, m, "interleaved")
    const there = projected(toKey, theta, n, "interleaved")
    return [dot(q, there), dot(here, k), dot(here, there)]
  },
  Shaw: (q, _k, m, n, { key_table, row }) => [dot(q, key_table[row(m - n)]), 0, 0],
  "Transformer-XL": (q, k, m, n, { theta, u, v, weight }) => {
    const there = projected(weight, theta, m - n, "split")
    return [dot(q, there), dot(u, k), dot(v, there)]
  },
  DeBERTa: (q, k, m, n, { key_table, query_table, row }) => [
    dot(q, key_table[row(m - n)]),
    dot(query_table[row(m - n)], k),
    0,
  ],
  T5: (q, _k, m, n, { weight, row }) => [0, 0, weight[row(m - n)] * Math.sqrt(q.length)], // the scale undoes this
  RoPE: () => [0, 0, 0],
}

/** The four terms of the logit of a query at m and a key at n.
 * @type {(name: string, q: Row, k: Row, m: number, n: number, learned: Learned) => number[]} */
export const logitTerms = (name, q, k, m, n, learned) => {
  const content = name === "RoPE" ? scorer(q, k, learned.theta, "half")(m - n) : dot(q, k)
  const scale = Math.sqrt(q.length * (name === "DeBERTa" ? 3 : 1))
  return [content, ...TERMS[name](q, k, m, n, learned)].map((term) => term / scale)
}
