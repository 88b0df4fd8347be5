// What is added to a logit, for each head. posenc.bias in another language.

import { alibi, alibiSlopes, fire, kerple, sandwich, t5Bucket, t5Starts } from "../../math/biases.js"
import { randomState } from "../../math/random.js"
import { cells, draws, overDistances, weights } from "./common.js"

/** @import { Encoded, Encodings, Once, PageData, State } from "../types.js" */

/** A bias that knows the offset alone: heads by distances, and the band of the chosen head.
 * @type {(s: State, bias: (distance: number, head: number) => number) => Encoded} */
const ofOffsets = (s, bias) => {
  const at = (/** @type {number} */ distance, /** @type {number} */ head) => bias(distance, head) + 0 // 0, never −0
  const from = s.causal ? 0 : 1 - s.length
  const columns = s.length - from
  const values = new Float64Array(s.heads * columns)
  for (let h = 0; h < s.heads; h++) for (let i = 0; i < columns; i++) values[h * columns + i] = at(from + i, h)
  const curve = (/** @type {number} */ distance) => at(distance, s.head)
  return { pattern: { values, rows: s.heads, columns, from }, band: overDistances(s.length, curve), curve }
}

/** FIRE's untrained networks, one for each head. @param {State} s @param {PageData} data @param {Once} once */
const networks = (s, data, once) => {
  const { width, eps, multiplier } = data.fire
  const drawn = once("network", [s.seed, s.heads], () => {
    const { uniform } = randomState(s.seed)
    const within = (/** @type {number} */ count, /** @type {number} */ bound) =>
      draws(count, () => bound * (2 * uniform() - 1))
    const [hidden, hiddenBias] = [within(width, 1), within(width, 1)]
    const out = within(s.heads * width, width ** -0.5)
    return { hidden, hiddenBias, out, outBias: within(s.heads, width ** -0.5) }
  })
  return (/** @type {number} */ h) => ({
    ...drawn,
    ...{ c: s.c, multiplier, threshold: s.threshold, eps, outBias: drawn.outBias[h] },
    out: drawn.out.subarray(h * width, (h + 1) * width),
  })
}

/** @type {Encodings} */
export const BIAS = {
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

  kerple: (s, data, once) => {
    const [r1, r2] = once("rates", [s.seed, s.heads, s.form], () => {
      const { uniform } = randomState(s.seed)
      const [first, second] = [draws(s.heads, uniform), draws(s.heads, uniform)]
      const doubled = s.form === "log" ? first : second
      for (let h = 0; h < s.heads; h++) doubled[h] *= 2
      return [first, second].map((rates) => rates.map((r) => Math.max(r, data.knobs.r1.min))) // as the package does
    })
    const [a, b] = [r1.slice(), r2.slice()]
    ;[a[s.head], b[s.head]] = [s.r1, s.r2]
    return ofOffsets(s, (distance, h) => kerple(distance, a[h], b[h], s.form))
  },

  sandwich: (s, _given, once) => {
    const sums = once("sums", [s.length, s.width, s.base], () =>
      Float64Array.from({ length: s.length }, (_, distance) => sandwich(distance, s.width, s.base)),
    )
    const biases = ofOffsets(s, (distance, h) => (s.heads / (8 * (h + 1))) * (sums[Math.abs(distance)] ?? 0))
    return { ...biases, curve: (distance) => (s.heads / (8 * (s.head + 1))) * sandwich(distance, s.width, s.base) }
  },

  fire: (s, data, once) => {
    const { length, first, heads, head, causal, query } = s
    const network = networks(s, data, once)
    const what = [s.seed, heads, s.c, s.threshold, length, first]
    const own = network(head)
    const columns = causal ? query + 1 : length
    const from = query - (causal ? query : length - 1)
    const values = once("pattern", [...what, causal, query], () => {
      const biases = new Float64Array(heads * columns)
      for (let h = 0; h < heads; h++) {
        const net = network(h)
        for (let i = 0; i < columns; i++) biases[h * columns + i] = fire(query + first, query - (from + i) + first, net)
      }
      return biases
    })
    const far = (/** @type {number} */ distance) => fire(data.far, data.far - distance, own)
    return {
      pattern: { values, rows: heads, columns, from },
      ...cells(once, [...what, head], length, (m, n) => fire(m + first, n + first, own)),
      curve: far,
    }
  },

  window: (s, _given, once) => {
    const { side, window, heads, head, seed, length } = s
    const wide = 2 * window - 1
    const weight = once("weight", [seed, wide, heads], () => draws(wide * wide * heads, weights(s).normal))
    const edge = (/** @type {number} */ step) => Math.min(Math.max(step, 1 - window), window - 1) + window - 1
    const places = (/** @type {number} */ m, /** @type {number} */ n) =>
      /** @type {[number, number]} */ ([Math.floor(m / side) - Math.floor(n / side), (m % side) - (n % side)].map(edge))
    const row = ([down, right] = [0, 0]) => down * wide + right
    const values = Float64Array.from({ length: wide * wide }, (_, i) => weight[i * heads + head])
    return {
      pattern: { values, rows: wide, columns: wide, from: 1 - window, reads: places },
      ...cells(once, [seed, wide, heads, head, length], length, (m, n) => weight[row(places(m, n)) * heads + head]),
    }
  },
}
