// Several heads at once, and the matrix behind them. torch.nn.MultiheadAttention in another language.

import { softmax } from "./attention.js"

/** @typedef {ArrayLike<number>} Row */

/** What each token gives the others, on average over the heads, and what it collects from them.
 * @type {(q: Row[], k: Row[], v: Row[], heads: number) => { weights: Float64Array[], mixed: Float64Array[] }} */
export const multihead = (q, k, v, heads) => {
  const width = q[0].length / heads
  const weights = q.map(() => new Float64Array(k.length))
  const mixed = q.map(() => new Float64Array(v[0].length))
  for (let h = 0; h < heads; h++) {
    const [from, to] = [h * width, (h + 1) * width]
    q.forEach((query, m) => {
      const shares = softmax(k.map((key) => dot(query, key, from, to) / Math.sqrt(width)))
      shares.forEach((share, n) => {
        weights[m][n] += share / heads
        for (let c = from; c < to; c++) mixed[m][c] += share * v[n][c]
      })
    })
  }
  return { weights, mixed }
}

/** Wx + b. @param {Row} x @param {Row[]} matrix @param {Row} bias @returns {Float64Array} */
export const linear = (x, matrix, bias) => Float64Array.from(matrix, (row, i) => dot(row, x, 0, x.length) + bias[i])

/** @param {Row[]} rows @returns {Float64Array} */
export const average = (rows) =>
  Float64Array.from(rows[0], (_, c) => rows.reduce((sum, row) => sum + row[c], 0) / rows.length)

/** @param {Row} x @param {Row} y */
export const distance = (x, y) => Math.hypot(...Array.from(x, (value, c) => value - y[c]))

/** @param {Row} x @param {Row} y @param {number} from @param {number} to */
const dot = (x, y, from, to) => {
  let sum = 0
  for (let c = from; c < to; c++) sum += x[c] * y[c]
  return sum
}
