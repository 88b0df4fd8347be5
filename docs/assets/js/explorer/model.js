// All numbers of the explorer: from a state to what its panels show. No page and no pixels here.

import { softmax } from "../math/attention.js"
import { alibi, alibiSlopes, fire, kerple, t5Bucket, t5Starts } from "../math/biases.js"
import { frequencies as channelFrequencies, scorer as popeScorer, softplus } from "../math/pope.js"
import { products } from "../math/products.js"
import { randomState } from "../math/random.js"
import { channels, rope, scorer } from "../math/rope.js"
import { byParts, dynamicNtk, linear, llama3, longrope, ntk, proportional, yarn } from "../math/scaling.js"
import { resample, turnedRows } from "../math/tables.js"
import { frequencies, kernel, sinusoidal } from "../math/waves.js"
import { biased, settle } from "./spec.js"

/** @import { State, Given, View, Found, Once } from "./types.js" */

/** @returns {Once} remembers of each name what its last parameters gave */
const memory = () => {
  /** @type {Map<string, { key: string, value: any }>} */
  const held = new Map()
  return (name, parameters, make) => {
    const key = parameters.join()
    let last = held.get(name)
    if (last?.key !== key) held.set(name, (last = { key, value: make() }))
    return last.value
  }
}

/** A number for each distance from 1 - length to length - 1. @param {number} length @param {(distance: number) => number} make */
const overDistances = (length, make) => Float64Array.from({ length: 2 * length - 1 }, (_, i) => make(i - length + 1))

/** @param {number} count @param {() => number} draw */
const draws = (count, draw) => {
  const found = new Float64Array(count)
  for (let i = 0; i < count; i++) found[i] = draw()
  return found
}

/** @param {ArrayLike<number>} theta @param {(i: number) => number[]} where */
const pairsOf = (theta, where) => /** @type {Array<[number, number]>} */ (Array.from(theta, (_, i) => where(i)))

/** @param {State} s @param {Given} given @returns {import("../math/scaling.js").Stretched} */
const stretched = (s, given) => {
  const { width, base, factor, original_length: original } = s
  const ramp = { fast: given.ramps.beta_fast, slow: given.ramps.beta_slow }
  const known = given.longrope
  /** @type {Record<string, () => import("../math/scaling.js").Stretched>} */
  const recipes = {
    none: () => ({ theta: frequencies(width, base), attention: 1 }),
    linear: () => linear(width, factor, base),
    ntk: () => ntk(width, factor, base),
    dynamic_ntk: () => dynamicNtk(width, factor, s.length, original, base),
    by_parts: () => byParts(width, factor, original, base, ramp),
    yarn: () => yarn(width, factor, original, base, ramp),
    llama3: () =>
      llama3(width, factor, original, base, { low: given.ramps.low_freq_factor, high: given.ramps.high_freq_factor }),
    longrope: () => longrope(width, resample(known.divisors, width / 2), known.factor, known.original_length, base),
    proportional: () => proportional(width, s.fraction, base),
  }
  return recipes[s.scaling]()
}

/** The query and the key, one vector each, or a row for each position. @param {State} s @param {Float64Array} alike what both are if they are constant @param {Once} once */
const contents = (s, alike, once) => {
  if (!["random", "tokens"].includes(s.content)) return { q: alike, k: alike, each: false }
  const each = s.content === "tokens"
  const size = each ? s.length * s.width : s.width
  return once("contents", [s.seed, size], () => {
    const { normal } = randomState(s.seed)
    return { q: draws(size, normal), k: draws(size, normal), each }
  })
}

/** @type {Record<string, (s: State, given: Given, once: Once) => Found>} */
const ENCODINGS = {
  sinusoidal: (s, _given, once) => {
    const { length, width, base, order, first } = s
    const theta = frequencies(width, base, order)
    const values = once("table", [length, width, base, order, first], () =>
      sinusoidal(length, width, theta, order, first),
    )
    const band = once("band", [length, width, base, order === "tensor2tensor"], () => {
      const half = Float64Array.from({ length }, (_, distance) => kernel(distance, theta))
      return overDistances(length, (distance) => half[Math.abs(distance)])
    })
    const pairs = pairsOf(theta, (i) => (order === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + theta.length]))
    return { pattern: { values, rows: length, columns: width, from: 0 }, band, theta, pairs }
  },

  learned: (s, given, once) => {
    const { length, width, seed, table } = s
    const { values, all } = once("rows", [length, width, seed, table], () => {
      const rows =
        table === "trained"
          ? Float64Array.from(given.trained.table).slice(0, length * width)
          : draws(length * width, randomState(seed).normal).map((x) => given.std * x)
      return { values: rows, all: products(rows, rows, width) }
    })
    return { pattern: { values, rows: length, columns: width, from: 0 }, values: all }
  },

  rope: (s, given, once) => {
    const { length, width, layout, first } = s
    const { theta, attention } = stretched(s, given)
    const start = new Float64Array(width)
    for (let i = 0; i < theta.length; i++) start[channels(i, width, layout)[0]] = 1
    const { q, k: same, each } = contents(s, start, once)
    const k = s.content === "peak" ? rope(q, s.peak, theta, layout) : same
    const what = [s.content, s.seed, s.peak, length, width, layout, theta.join(), attention]
    const options = { layout, first, attention }
    const values = once("queries", [...what, first], () => turnedRows(q, length, theta, width, options))
    const pattern = { values, rows: length, columns: width, from: 0 }
    const pairs = pairsOf(theta, (i) => channels(i, width, layout))
    if (!each) {
      const of = (/** @type {Float64Array} */ t, /** @type {number} */ a, /** @type {Float64Array} */ key) =>
        overDistances(length, scorer(q, key, t, layout, a))
      const band = once("band", what, () => of(theta, attention, k))
      const keyRow = (/** @type {number} */ n) => rope(k, n + first, theta, layout, attention)
      if (s.scaling === "none") return { pattern, band, theta, pairs, keyRow }
      const usual = frequencies(width, s.base)
      const plain = once("plain", what, () => of(usual, 1, s.content === "peak" ? rope(q, s.peak, usual, layout) : k))
      return { pattern, band, plain, theta, pairs, keyRow }
    }
    const keys = once("keys", [...what, first], () => turnedRows(k, length, theta, width, options))
    const all = once("products", [...what, first], () => products(values, keys, width))
    return { pattern, values: all, theta, pairs, keyRow: (n) => keys.subarray(n * width, (n + 1) * width) }
  },

  pope: (s, _given, once) => {
    const { length, width, base, first } = s
    const theta = channelFrequencies(width, base)
    const alike = new Float64Array(width).fill(Math.log(Math.E - 1)) // softplus makes 1 of it
    const { q, k, each } = contents(s, alike, once)
    const turn = 2 * Math.PI
    const phase = once("phase", [s.phase, s.peak, s.seed, width, base, s.content, each ? length : 1], () => {
      if (s.phase === "zero") return new Float64Array(width)
      if (s.phase === "peak") return theta.map((t) => (s.peak * t) % turn && ((s.peak * t) % turn) - turn)
      const { normal, uniform } = randomState(s.seed)
      if (["random", "tokens"].includes(s.content)) draws(2 * q.length, normal) // the contents come first
      return draws(width, () => turn * (uniform() - 1))
    })
    const what = [s.content, s.seed, s.phase, s.peak, length, width, base]
    /** @param {Float64Array} x @param {Float64Array} less @param {number} count @param {number} [from] */
    const rows = (x, less, count, from = first) => {
      const found = new Float64Array(count * 2 * width)
      for (let p = 0; p < count; p++) {
        for (let c = 0; c < width; c++) {
          const height = softplus(x[each ? p * width + c : c])
          const angle = (p + from) * theta[c] - less[c]
          found[p * 2 * width + c] = height * Math.cos(angle)
          found[(p * 2 + 1) * width + c] = height * Math.sin(angle)
        }
      }
      return found
    }
    const values = once("queries", [...what, first], () => rows(q, phase, length))
    const pattern = { values, rows: length, columns: 2 * width, from: 0 }
    const pairs = pairsOf(theta, (c) => [c, c + width])
    const still = new Float64Array(width)
    if (!each) {
      const band = once("band", what, () => overDistances(length, popeScorer(q, k, theta, phase)))
      return { pattern, band, theta, pairs, keyRow: (n) => rows(k, still, 1, n + first) }
    }
    const keys = once("keys", [...what, first], () => rows(k, still, length))
    const all = once("products", [...what, first], () => products(values, keys, 2 * width))
    return { pattern, values: all, theta, pairs, keyRow: (n) => keys.subarray(n * 2 * width, (n + 1) * 2 * width) }
  },

  none: (s, _given, once) => {
    const { length, width } = s
    const { q, k, each } = contents(s, new Float64Array(width).fill(1), once)
    const values = once("queries", [s.content, s.seed, length, width], () =>
      Float64Array.from({ length: length * width }, (_, i) => q[each ? i : i % width]),
    )
    const pattern = { values, rows: length, columns: width, from: 0 }
    const keyRow = (/** @type {number} */ n) => (each ? k.subarray(n * width, (n + 1) * width) : k)
    if (!each) {
      const score = products(q, k, width)[0]
      return { pattern, band: overDistances(length, () => score), keyRow }
    }
    return { pattern, values: once("products", [s.seed, length, width], () => products(values, k, width)), keyRow }
  },

  alibi: (s) => {
    const slopes = alibiSlopes(s.heads)
    return ofOffsets(s, (distance, h) => alibi(distance, slopes[h]))
  },

  t5: (s, _given, once) => {
    const weight = once("weight", [s.seed, s.buckets, s.heads], () =>
      draws(s.buckets * s.heads, randomState(s.seed).normal),
    )
    const starts = t5Starts(s.buckets, s.max_distance, s.bidirectional)
    return ofOffsets(s, (distance, h) => weight[t5Bucket(-distance, starts, s.bidirectional) * s.heads + h])
  },

  kerple: (s, _given, once) => {
    const [r1, r2] = once("rates", [s.seed, s.heads, s.form], () => {
      const { uniform } = randomState(s.seed)
      const [first, second] = [draws(s.heads, uniform), draws(s.heads, uniform)]
      const doubled = s.form === "log" ? first : second
      for (let h = 0; h < s.heads; h++) doubled[h] *= 2
      return [first, second]
    })
    const [a, b] = [r1.slice(), r2.slice()]
    ;[a[s.head], b[s.head]] = [s.r1, s.r2]
    return ofOffsets(s, (distance, h) => kerple(distance, a[h], b[h], s.form))
  },

  fire: (s, given, once) => {
    const { width, eps, multiplier } = given.fire
    const { length, first, heads, head } = s
    const drawn = once("network", [s.seed, heads], () => {
      const { uniform } = randomState(s.seed)
      const within = (/** @type {number} */ count, /** @type {number} */ bound) =>
        draws(count, () => bound * (2 * uniform() - 1))
      const hidden = within(width, 1)
      const hiddenBias = within(width, 1)
      const out = within(heads * width, width ** -0.5)
      return { hidden, hiddenBias, out, outBias: within(heads, width ** -0.5) }
    })
    const network = (/** @type {number} */ h) => ({
      ...drawn,
      ...{ c: s.c, multiplier, threshold: s.threshold, eps, outBias: drawn.outBias[h] },
      out: drawn.out.subarray(h * width, (h + 1) * width),
    })
    const what = [s.seed, heads, s.c, s.threshold, length, first]
    const values = once("products", [...what, head], () => {
      const found = new Float64Array(length * length)
      const own = network(head)
      for (let m = 0; m < length; m++) {
        for (let n = 0; n <= m; n++) found[m * length + n] = found[n * length + m] = fire(m + first, n + first, own)
      }
      return found
    })
    const columns = s.causal ? s.query + 1 : length
    const from = s.query - (s.causal ? s.query : length - 1)
    const pattern = once("pattern", [...what, s.causal, s.query], () => {
      const found = new Float64Array(heads * columns)
      for (let h = 0; h < heads; h++) {
        const own = network(h)
        for (let i = 0; i < columns; i++)
          found[h * columns + i] = fire(s.query + first, s.query - (from + i) + first, own)
      }
      return found
    })
    return { pattern: { values: pattern, rows: heads, columns, from }, values }
  },
}

/** A bias that knows the offset alone: heads by distances, and the band of the chosen head. @param {State} s @param {(distance: number, head: number) => number} bias @returns {Found} */
const ofOffsets = (s, bias) => {
  const at = (/** @type {number} */ distance, /** @type {number} */ head) => bias(distance, head) + 0 // 0, never −0
  const from = s.causal ? 0 : 1 - s.length
  const columns = s.length - from
  const values = new Float64Array(s.heads * columns)
  for (let h = 0; h < s.heads; h++) for (let i = 0; i < columns; i++) values[h * columns + i] = at(from + i, h)
  const band = overDistances(s.length, (distance) => at(distance, s.head))
  return { pattern: { values, rows: s.heads, columns, from }, band }
}

/** The range of colors: as far to both sides of 0, or down from 0 where a bias only takes away. @param {Float64Array} values @param {boolean} takes @param {(i: number) => boolean} [counts] */
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

/** @param {Given} given @returns {(state: State) => View} */
export const explorer = (given) => {
  const once = memory()
  return (state) => {
    const s = settle(state, given)
    const { length, causal } = s
    const found = ENCODINGS[s.encoding](s, given, once)
    const { pattern, band = null, values = null, plain = null, theta = null, pairs = [] } = found
    const takes = ["alibi", "kerple"].includes(s.encoding)
    const shown = band
      ? range(band, takes, causal ? (i) => i >= length - 1 : undefined)
      : range(/** @type {Float64Array} */ (values), takes, causal ? (i) => i % length <= i / length : undefined)
    const at = (/** @type {number} */ m, /** @type {number} */ n) =>
      band ? band[m - n + length - 1] : /** @type {Float64Array} */ (values)[m * length + n]
    const row = (/** @type {number} */ m) => Float64Array.from({ length }, (_, n) => at(m, n))
    const scale = biased(s) ? 1 : s.width ** -0.5
    const weights = (/** @type {number} */ m) =>
      softmax(row(m).map((x, n) => (causal && n > m ? -Infinity : x * scale)))
    const queryRow = (/** @type {number} */ m) =>
      pattern.values.subarray(m * pattern.columns, (m + 1) * pattern.columns)
    return {
      state: s,
      pattern: { ...pattern, ...range(pattern.values, takes) },
      band,
      values,
      ...shown,
      plain,
      theta,
      pairs,
      at,
      row,
      weights,
      queryRow,
      keyRow: found.keyRow ?? queryRow,
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
