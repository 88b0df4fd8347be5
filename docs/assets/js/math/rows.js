// Rows of a batch that hold several texts, or one among pads: who sees whom, and what that changes.
// posenc.positions and posenc.attention in another language.

import { softmax } from "./attention.js"
import { rope } from "./rope.js"
import { frequencies, sinusoidal } from "./waves.js"

/** @typedef {ArrayLike<number>[]} Rows */

export const PAD = -1 // the owner of a column that nobody should read

/** The owner of each column of a row cut into three: documents, or one text whose pads stand before it or inside it.
 * @param {number} length @param {number[]} cuts @param {string} kind "packed", "before" or "inside" */
export const owners = (length, [first, second], kind) =>
  Array.from({ length }, (_, s) => {
    const piece = Number(s >= first) + Number(s >= second)
    return kind === "packed" ? piece : piece === Number(kind === "inside") ? PAD : 0
  })

/** Positions that count the tokens of each owner from 0; pads get 0. @param {number[]} owner */
export const counted = (owner) =>
  owner.map((own, s) => (own === PAD ? 0 : owner.slice(0, s).filter((other) => other === own).length))

/** The weights of each query: causal by position, and by owner if `masked`.
 * @param {Rows} q @param {Rows} k @param {number[]} places @param {number[]} owner @param {boolean} masked
 * @param {string} encoding "rope" or "sinusoid" */
export const weights = (q, k, places, owner, masked, encoding) => {
  const dim = q[0].length
  const theta = frequencies(dim, 10_000)
  const encoded = (/** @type {ArrayLike<number>} */ x, /** @type {number} */ p) => {
    if (encoding === "rope") return rope(x, p, theta, "half")
    const wave = sinusoidal(1, dim, theta, "interleaved", p)
    return wave.map((value, c) => value + x[c])
  }
  const keys = k.map((key, n) => encoded(key, places[n]))
  return q.map((raw, m) => {
    const query = encoded(raw, places[m])
    const scores = keys.map((key, n) => {
      const hidden = masked && (owner[n] === PAD || (owner[m] !== PAD && owner[n] !== owner[m]))
      if (hidden || places[n] > places[m]) return -Infinity
      return key.reduce((sum, value, c) => sum + value * query[c], 0) / Math.sqrt(dim)
    })
    return scores.some(Number.isFinite) ? softmax(scores) : new Float64Array(scores.length)
  })
}

/** For each column the share of its weight on strangers, and all that has moved against reading its text alone.
 * @param {Rows} q @param {Rows} k @param {number[]} places @param {number[]} owner @param {boolean} masked
 * @param {string} encoding */
export const changes = (q, k, places, owner, masked, encoding) => {
  const now = weights(q, k, places, owner, masked, encoding)
  const alone = weights(q, k, counted(owner), owner, true, encoding)
  return now.map((row, m) => {
    const sum = (/** @type {(n: number) => number} */ part) => row.reduce((all, _, n) => all + part(n), 0)
    return {
      leak: sum((n) => (owner[n] === owner[m] ? 0 : row[n])),
      moved: sum((n) => Math.abs(row[n] - alone[m][n])) / 2,
    }
  })
}
