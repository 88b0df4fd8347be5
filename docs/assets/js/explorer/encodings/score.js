// What is added to a logit by content and offset, with learned vectors as they are before training.
// posenc.score in another language.

import { t5Bucket, t5Starts } from "../../math/biases.js"
import { frequencies } from "../../math/waves.js"
import { contents, dot, draws, lines, overDistances, patternOf, sigmoid, vectorAt, weights } from "./common.js"

/** @import { Encoded, Encodings, Once, Scores, State } from "../types.js" */

/** Content before any choice: all ones. @param {State} s @param {Once} once */
export const ones = (s, once) => contents(s, new Float64Array(s.width).fill(1), once)

/** What decides the contents. @param {State} s */
export const contentKey = (s) => [s.content, s.seed, s.words, s.length, s.width]

/** A score of the query's vector and the distance: a band where all queries are alike.
 * @type {(s: State, once: Once, what: unknown[], scorer: (q: ArrayLike<number>) => (distance: number) => number) =>
 *   Scores} */
const byDistance = (s, once, what, scorer) => {
  const { q, perToken } = ones(s, once)
  const key = [...contentKey(s), ...what]
  if (!perToken) {
    const curve = scorer(q)
    return { band: once("band", key, () => overDistances(s.length, curve)), curve }
  }
  return lines(once, key, s.length, (m) => {
    const score = scorer(vectorAt(q, perToken, m, s.width))
    return Float64Array.from({ length: s.length }, (_, n) => score(m - n))
  })
}

/** The products of a vector with each row of a table, at once.
 * @type {(q: ArrayLike<number>, table: Float64Array) => Float64Array} */
const against = (q, table) =>
  Float64Array.from({ length: table.length / q.length }, (_, row) => dot(q, table, row * q.length))

/** What is added for each row of a grid and for each column. @param {State} s @param {Once} once */
const sides = (s, once) => {
  const count = (2 * s.side - 1) * s.width
  return once("sides", [s.seed, count], () => {
    const { normal } = weights(s)
    const scale = s.width ** -0.5
    return [draws(count, normal, scale), draws(count, normal, scale)]
  })
}

/** Where DeBERTa's buckets lie. posenc.score.deberta.deberta_bucket
 * @param {number} offset m - n @param {number} buckets @param {number} most */
const debertaBucket = (offset, buckets, most) => {
  const [size, middle] = [Math.abs(offset), buckets / 2]
  if (size <= middle) return offset
  const grown = (Math.log(size / middle) / Math.log((most - 1) / middle)) * (middle - 1)
  return Math.sign(offset) * (middle + Math.ceil(Math.round(grown * 1e9) / 1e9))
}

/** @type {Encodings} */
export const SCORE = {
  shaw: (s, _given, once) => {
    const { width, clip } = s
    const rows = 2 * clip + 1
    const table = once("table", [s.seed, rows, width], () => draws(rows * width, weights(s).normal, width ** -0.5))
    const row = (/** @type {number} */ distance) => Math.min(Math.max(-distance, -clip), clip) + clip
    return {
      pattern: { ...patternOf(table, width), reads: (m, n) => [row(m - n), null], start: -clip },
      ...byDistance(s, once, [clip], (q) => {
        const products = against(q, table)
        return (distance) => products[row(distance)] / width ** 0.5
      }),
    }
  },

  music: (s, _given, once) => {
    const { width, clip } = s
    const table = once("table", [s.seed, clip, width], () => draws(clip * width, weights(s).normal, width ** -0.5))
    const row = (/** @type {number} */ distance) => Math.max(0, clip - 1 - Math.max(0, distance))
    return {
      pattern: { ...patternOf(table, width), reads: (m, n) => [row(m - n), null], start: 1 - clip },
      ...byDistance(s, once, [clip], (q) => {
        const products = against(q, table)
        return (distance) => (distance < 0 ? 0 : products[row(distance)] / width ** 0.5)
      }),
    }
  },

  transformer_xl: (s, _given, once) => {
    const { width, length, base } = s
    const half = width / 2
    const theta = frequencies(width, base)
    const [u, v, mix] = once("learned", [s.seed, width], () => {
      const { normal } = weights(s)
      return [width, width, width * width].map((count) => draws(count, normal, width ** -0.5))
    })
    const values = once("waves", [length, width, base], () =>
      Float64Array.from({ length: (2 * length - 1) * width }, (_, i) => {
        const [distance, c] = [Math.floor(i / width) - length + 1, i % width]
        return c < half ? Math.sin(distance * theta[c]) : Math.cos(distance * theta[c - half])
      }),
    )
    const { q, k, perToken } = ones(s, once)
    const waved = (/** @type {ArrayLike<number>} */ query) => {
      const both = Float64Array.from(query, (x, i) => x + v[i])
      const heights = new Float64Array(width)
      for (let i = 0; i < width; i++) for (let c = 0; c < width; c++) heights[c] += both[i] * mix[i * width + c]
      return heights
    }
    const of = (/** @type {Float64Array} */ heights, /** @type {number} */ distance) => {
      let sum = 0
      for (let i = 0; i < half; i++)
        sum += heights[i] * Math.sin(distance * theta[i]) + heights[half + i] * Math.cos(distance * theta[i])
      return sum / width ** 0.5
    }
    /** @type {Encoded["pattern"]} */
    const pattern = { ...patternOf(values, width), start: 1 - length, reads: (m, n) => [m - n + length - 1, null] }
    const key = [...contentKey(s), base]
    if (!perToken) {
      const heights = waved(q)
      const own = dot(u, k) / width ** 0.5
      const curve = (/** @type {number} */ distance) => own + of(heights, distance)
      return { pattern, curve, band: once("band", key, () => overDistances(length, curve)) }
    }
    const line = (/** @type {number} */ m) => {
      const heights = waved(vectorAt(q, perToken, m, width))
      return Float64Array.from({ length }, (_, n) => {
        const place = (m - n + length - 1) * width
        return (dot(u, k, n * width) + dot(heights, values, place)) / width ** 0.5
      })
    }
    return { pattern, ...lines(once, key, length, line) }
  },

  deberta: (s, _given, once) => {
    const { width, length, buckets, max_distance: most } = s
    const rows = 2 * buckets
    const [keyed, queried] = once("tables", [s.seed, rows, width], () => {
      const { normal } = weights(s)
      return [rows * width, rows * width].map((count) => draws(count, normal, width ** -0.5))
    })
    const row = (/** @type {number} */ distance) =>
      Math.min(Math.max(debertaBucket(distance, buckets, most) + buckets, 0), rows - 1)
    /** @type {Encoded["pattern"]} */
    const pattern = { ...patternOf(keyed, width), start: -buckets, reads: (m, n) => [row(m - n), null] }
    const { q, k, perToken } = ones(s, once)
    const tables = (/** @type {ArrayLike<number>} */ x, /** @type {Float64Array} */ table) => against(x, table)
    const score = (/** @type {number} */ product, /** @type {number} */ moved) =>
      ((product + moved) / 3 ** 0.5 - product) / width ** 0.5
    const key = [...contentKey(s), buckets, most]
    if (!perToken) {
      const [byQuery, byKey, product] = [tables(q, keyed), tables(k, queried), dot(q, k)]
      const curve = (/** @type {number} */ distance) => score(product, byQuery[row(distance)] + byKey[row(distance)])
      return { pattern, curve, band: once("band", key, () => overDistances(length, curve)) }
    }
    const byKeys = once("keys", key, () =>
      Array.from({ length }, (_, n) => tables(vectorAt(k, perToken, n, width), queried)),
    )
    const line = (/** @type {number} */ m) => {
      const query = vectorAt(q, perToken, m, width)
      const byQuery = tables(query, keyed)
      return Float64Array.from({ length }, (_, n) => {
        const at = row(m - n)
        return score(dot(query, k, n * width), byQuery[at] + byKeys[n][at])
      })
    }
    return { pattern, ...lines(once, key, length, line) }
  },

  profiles: (s, _given, once) => {
    const { width, rank, extent } = s
    const [mix, bank] = once("learned", [s.seed, width, rank, extent], () => {
      const { normal } = weights(s)
      return [draws(rank * width, normal, width ** -0.5), draws(rank * extent, normal, 0.02)]
    })
    return {
      pattern: { ...patternOf(bank, extent), reads: (m, n) => [null, Math.min(Math.max(m - n, 0), extent - 1)] },
      ...byDistance(s, once, [rank, extent], (q) => {
        const states = against(q, mix)
        return (distance) => {
          if (distance < 0 || distance >= extent) return 0
          let sum = 0
          for (let i = 0; i < rank; i++) sum += states[i] * bank[i * extent + distance]
          return sum
        }
      }),
    }
  },

  gated: (s, _given, once) => {
    const { width, length, buckets, max_distance: most } = s
    const [table, gate] = once("learned", [s.seed, buckets, width], () => {
      const { normal } = weights(s)
      return [draws(buckets, normal), draws(2 * width, normal, width ** -0.5)]
    })
    const starts = t5Starts(buckets, most, true)
    const number = (/** @type {number} */ distance) => table[t5Bucket(-distance, starts, true)]
    const values = once("numbers", [s.seed, buckets, width, most, length], () => overDistances(length, number))
    return {
      pattern: { values, rows: 1, columns: 2 * length - 1, from: 1 - length, reads: (m, n) => [0, m - n + length - 1] },
      ...byDistance(s, once, [buckets, most], (q) => {
        let [u, v] = [0, 0]
        for (let c = 0; c < width; c++) ((u += q[c] * gate[2 * c]), (v += q[c] * gate[2 * c + 1]))
        const factor = 2 - sigmoid(u) + sigmoid(u) * sigmoid(v)
        return (distance) => factor * number(distance)
      }),
    }
  },

  decomposed: (s, _given, once) => {
    const { width, side, length } = s
    const [rows, columns] = sides(s, once)
    const { q, perToken } = ones(s, once)
    const offsets = (/** @type {number} */ m, /** @type {number} */ n) => [
      Math.floor(m / side) - Math.floor(n / side) + side - 1,
      (m % side) - (n % side) + side - 1,
    ]
    const line = (/** @type {number} */ m) => {
      const query = vectorAt(q, perToken, m, width)
      const [byRow, byColumn] = [against(query, rows), against(query, columns)]
      return Float64Array.from({ length }, (_, n) => {
        const [down, right] = offsets(m, n)
        return byRow[down] + byColumn[right]
      })
    }
    return {
      pattern: { ...patternOf(rows, width), start: 1 - side, reads: (m, n) => [offsets(m, n)[0], null] },
      ...lines(once, [...contentKey(s), side], length, line),
    }
  },
}
