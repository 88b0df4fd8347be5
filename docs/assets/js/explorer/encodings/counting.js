// Scores that depend on all tokens between a query and its key. posenc.score in another language.

import { softplus } from "../../math/pope.js"
import { dot, draws, lines, patternOf, sigmoid, vectorAt, weights } from "./common.js"
import { contentKey, ones } from "./score.js"

/** @import { Encodings, Scores } from "../types.js" */

/** @type {Encodings} */
export const COUNTING = {
  cope: (s, _given, once) => {
    const { width, length, clip: rows } = s
    const table = once("table", [s.seed, rows, width], () => draws(rows * width, weights(s).normal, width ** -0.5))
    const { q, k, perToken } = ones(s, once)
    const counts = (/** @type {number} */ m) => {
      const query = vectorAt(q, perToken, m, width)
      const places = new Float64Array(m + 1)
      let count = 0
      for (let n = m; n >= 0; n--) {
        count += sigmoid(
          dot(query, perToken ? k : vectorAt(k, perToken, n, width), perToken ? n * width : 0) / width ** 0.5,
        )
        places[n] = Math.min(count, rows - 1)
      }
      return places
    }
    const line = (/** @type {number} */ m) => {
      const query = vectorAt(q, perToken, m, width)
      const at = Float64Array.from({ length: rows }, (_, row) => dot(query, table, row * width))
      const scores = new Float64Array(length)
      counts(m).forEach((count, n) => {
        const low = Math.floor(count)
        scores[n] = at[low] + (at[Math.min(low + 1, rows - 1)] - at[low]) * (count - low)
      })
      return scores
    }
    const reads = (/** @type {number} */ m, /** @type {number} */ n) =>
      /** @type {[number | null, number | null]} */ ([n > m ? 0 : counts(m)[n], null])
    return {
      pattern: { values: table, rows, columns: width, from: 0, reads },
      ...lines(once, [...contentKey(s), rows], length, line),
    }
  },

  forget: (s, _given, once) => {
    const { width, length, opening } = s
    const { k, perToken } = ones(s, once)
    const key = [...contentKey(s), opening]
    const logits = once("gates", key, () => {
      const weight = draws(width, weights(s).normal, width ** -0.5)
      return Float64Array.from({ length }, (_, p) => dot(weight, vectorAt(k, perToken, p, width)) + opening)
    })
    const sums = once("sums", key, () => {
      let sum = 0
      return logits.map((logit) => (sum -= softplus(-logit)))
    })
    const line = (/** @type {number} */ m) => Float64Array.from({ length }, (_, n) => (n < m ? sums[m] - sums[n] : 0))
    return {
      pattern: { values: logits.map(sigmoid), rows: 1, columns: length, from: 0, reads: (_m, n) => [0, n] },
      ...lines(once, key, length, line),
    }
  },

  path: (s, _given, once) => {
    const { width, length } = s
    const { q, k, perToken } = ones(s, once)
    const key = contentKey(s)
    const { way, beta, met, passed } = once("mirrors", key, () => {
      const { normal } = weights(s)
      const [mix, gate] = [draws(width * width, normal, width ** -0.5), draws(width, normal, width ** -0.5)]
      const way = new Float64Array(length * width)
      const beta = new Float64Array(length)
      for (let p = 0; p < length; p++) {
        const own = vectorAt(k, perToken, p, width)
        for (let i = 0; i < width; i++) way[p * width + i] = dot(own, mix, i * width)
        const row = way.subarray(p * width, (p + 1) * width)
        const size = Math.max(Math.sqrt(dot(row, row)), 1e-12)
        for (let i = 0; i < width; i++) row[i] /= size
        beta[p] = 2 * sigmoid(dot(own, gate))
      }
      const pair = (/** @type {Float64Array} */ x, /** @type {boolean} */ rows) =>
        Float64Array.from({ length: length * length }, (_, i) => {
          const [l, n] = [Math.floor(i / length), i % length]
          return n > l ? 0 : dot(vectorAt(x, rows, n, width), way, l * width)
        })
      return { way, beta, met: pair(k, perToken), passed: pair(way, true) }
    })
    const line = (/** @type {number} */ m) => {
      const query = vectorAt(q, perToken, m, width)
      const taken = new Float64Array(m + 1)
      const scores = new Float64Array(length)
      for (let l = m; l >= 0; l--) {
        let left = dot(query, way, l * width)
        for (let later = l + 1; later <= m; later++) left -= taken[later] * passed[later * length + l]
        taken[l] = left * beta[l]
      }
      for (let n = 0; n < m; n++) {
        for (let l = n + 1; l <= m; l++) scores[n] -= taken[l] * met[l * length + n]
        scores[n] /= width ** 0.5
      }
      return scores
    }
    return { pattern: patternOf(way, width), ...lines(once, key, length, line) }
  },
}
