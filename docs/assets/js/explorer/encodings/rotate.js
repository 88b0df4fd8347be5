// What turns queries and keys by their position. posenc.rotate in another language.

import { frequencies as channelFrequencies, scorer as popeScorer, softplus } from "../../math/pope.js"
import { randomState } from "../../math/random.js"
import { channels } from "../../math/rope.js"
import { turnedBy, wheelOf } from "../../math/tables.js"
import { frequencies } from "../../math/waves.js"
import {
  contents,
  dots,
  draws,
  overDistances,
  pairScorer,
  pairsOf,
  patternOf,
  rowsOf,
  turned,
  weights,
} from "./common.js"
import { stretched } from "./stretched.js"

/** @import { Encodings, State } from "../types.js" */
/** @import { Turn } from "./common.js" */

/** How many channels turn: two pairs at least, as some recipes divide by what is beyond the first. @param {State} s */
export const turning = ({ width, share }) => Math.min(width, 2 * Math.max(2, Math.round((share * width) / 2)))

/** All pairs of a head of which some channels turn, from `start` on; the others stand still, at frequency 0.
 * @type {(s: State, start: number, theta: Float64Array, layout: string) => Turn} */
const partly = ({ width }, start, theta, layout) => {
  const wide = 2 * theta.length
  const still = Array.from({ length: (width - wide) / 2 }, (_, i) => (2 * i < start ? 2 * i : 2 * i + wide))
  const pairs = pairsOf(theta, (i) => channels(i, wide, layout).map((c) => c + start))
  const rest = /** @type {Array<[number, number]>} */ (still.map((c) => [c, c + 1]))
  return { pairs: [...pairs, ...rest], theta: Float64Array.from([...theta, ...rest.map(() => 0)]) }
}

/** One vector whose pairs all lie along their first channel. @param {State} s @param {Turn} turn */
export const along = ({ width }, { pairs }) => {
  const start = new Float64Array(width)
  for (const [first] of pairs) start[first] = 1
  return start
}

/** What decides a view: those that the state names, and the frequencies. @param {State} s @param {Turn} turn */
const decided = (s, { theta }) => [s.content, s.seed, s.words, s.length, s.width, theta.join()]

/** @type {Encodings} */
export const ROTATE = {
  rope: (s, data, once) => {
    const { length, width, layout } = s
    const wide = turning(s)
    const { theta, attention } = stretched({ ...s, width: wide }, data)
    const sized = (/** @type {number} */ factor) =>
      Float64Array.from({ length: width / 2 }, (_, i) => (2 * i < wide ? factor : 1))
    const turn = { ...partly(s, 0, theta, layout), size: sized(attention) }
    const { q, k: same, perToken } = contents(s, along(s, turn), once)
    const to = (/** @type {Turn} */ { pairs, theta: t }) => {
      const wheel = wheelOf(1, pairs.length, (_p, i) => s.peak * t[i])
      return turnedBy(q, 1, width, pairs, wheel)
    }
    const peaked = s.content === "peak"
    const what = [...decided(s, turn), s.peak, layout, attention]
    const view = turned(s, once, what, { q, k: peaked ? to(turn) : same, perToken }, turn)
    if (perToken || s.scaling === "none") return view
    const usual = partly(s, 0, frequencies(wide, s.base), layout)
    const plainCurve = pairScorer(q, peaked ? to(usual) : same, usual)
    return { ...view, plain: once("plain", what, () => overDistances(length, plainCurve)), plainCurve }
  },

  lerope: (s, _given, once) => {
    const moved = draws(s.width / 2, weights(s).normal, s.spread)
    const usual = frequencies(s.width, s.base)
    const turn = partly(s, 0, usual.map((t, i) => t * Math.exp(moved[i])), s.layout) // prettier-ignore
    const content = contents(s, along(s, turn), once)
    const view = turned(s, once, [...decided(s, turn), s.layout], content, turn)
    if (content.perToken) return view
    const plainCurve = pairScorer(content.q, content.k, { ...turn, theta: usual })
    return { ...view, plain: overDistances(s.length, plainCurve), plainCurve }
  },

  latent: (s, _given, once) => {
    const wide = turning(s)
    const turn = partly(s, s.width - wide, frequencies(wide, s.base), s.layout)
    return turned(s, once, [...decided(s, turn), s.layout], contents(s, along(s, turn), once), turn)
  },

  xpos: (s, data, once) => {
    const { length, width, first, scale_base: fade } = s
    const theta = frequencies(width, s.base)
    const zeta = theta.map((_, i) => ((2 * i) / width + 0.4) / 1.4)
    const turn = { pairs: pairsOf(theta, (i) => [2 * i, 2 * i + 1]), theta }
    const { q, k, perToken } = contents(s, along(s, turn), once)
    const what = [...decided(s, turn), fade]
    /** @param {Float64Array} x @param {number} count @param {number} from @param {number} sign */
    const rows = (x, count, from, sign) => {
      const size = (/** @type {number} */ p, /** @type {number} */ i) => zeta[i] ** ((sign * (p + from)) / fade)
      const wheel = wheelOf(count, theta.length, (p, i) => (p + from) * theta[i], size)
      return turnedBy(x, count, width, turn.pairs, wheel)
    }
    const values = once("queries", [...what, first], () => rows(q, length, first, 1))
    const pattern = patternOf(values, width)
    if (perToken) {
      const keys = once("keys", [...what, first], () => rows(k, length, first, -1))
      const keyRow = rowsOf(keys, width)
      return { pattern, ...dots(once, [...what, first], values, keys, width), theta, pairs: turn.pairs, keyRow }
    }
    const parts = turn.pairs.map(([a, b]) => [
      Math.hypot(q[a], q[b]) * Math.hypot(k[a], k[b]),
      Math.atan2(q[b], q[a]) - Math.atan2(k[b], k[a]),
    ])
    const curve = (/** @type {number} */ distance) => {
      if (Math.abs(distance) > data.xpos.reach * fade) return NaN
      let sum = 0
      parts.forEach(([height, start], i) => {
        sum += height * zeta[i] ** (distance / fade) * Math.cos(distance * theta[i] + start)
      })
      return sum
    }
    const band = once("band", what, () => overDistances(length, curve))
    return { pattern, band, curve, theta, pairs: turn.pairs, keyRow: (n) => rows(k, 1, n + first, -1) }
  },

  pope: (s, _given, once) => {
    const { length, width, base, first } = s
    const theta = channelFrequencies(width, base)
    const alike = new Float64Array(width).fill(Math.log(Math.E - 1)) // softplus makes 1 of it
    const { q, k, perToken } = contents(s, alike, once)
    const turn = 2 * Math.PI
    const phase = once("phase", [s.phase, s.peak, s.seed, width, base, s.content, perToken ? length : 1], () => {
      if (s.phase === "zero") return new Float64Array(width)
      if (s.phase === "peak") return theta.map((t) => (s.peak * t) % turn && ((s.peak * t) % turn) - turn)
      const { normal, uniform } = randomState(s.seed)
      if (["random", "tokens"].includes(s.content)) draws(2 * q.length, normal) // the contents come first
      return draws(width, () => turn * (uniform() - 1))
    })
    const what = [s.content, s.seed, s.words, s.phase, s.peak, length, width, base]
    /** @type {(x: Float64Array, less: Float64Array, count: number, from?: number) => Float64Array} */
    const rows = (x, less, count, from = first) => {
      const table = new Float64Array(count * 2 * width)
      for (let p = 0; p < count; p++) {
        for (let c = 0; c < width; c++) {
          const height = softplus(x[perToken ? p * width + c : c])
          const angle = (p + from) * theta[c] - less[c]
          table[p * 2 * width + c] = height * Math.cos(angle)
          table[(p * 2 + 1) * width + c] = height * Math.sin(angle)
        }
      }
      return table
    }
    const values = once("queries", [...what, first], () => rows(q, phase, length))
    const pattern = patternOf(values, 2 * width)
    const pairs = pairsOf(theta, (c) => [c, c + width])
    const still = new Float64Array(width)
    if (!perToken) {
      const curve = popeScorer(q, k, theta, phase)
      const band = once("band", what, () => overDistances(length, curve))
      return { pattern, band, curve, theta, pairs, keyRow: (n) => rows(k, still, 1, n + first) }
    }
    const keys = once("keys", [...what, first], () => rows(k, still, length))
    const keyRow = rowsOf(keys, 2 * width)
    return { pattern, ...dots(once, [...what, first], values, keys, 2 * width), theta, pairs, keyRow }
  },

  fope: (s, _given, once) => {
    const { length, width, first } = s
    const theta = frequencies(width, s.base).filter((t) => t >= (2 * Math.PI) / s.original_length)
    const count = theta.length
    const [cosines, sines] = once("coefficients", [s.seed, count, s.gain], () => {
      const { normal } = weights(s)
      const noise = s.gain * (2 / (count * (1 + count))) ** 0.5
      return [0, 1].map(() => draws(count * count, normal, noise).map((x, i) => x + Number(i % (count + 1) === 0)))
    })
    const pairs = pairsOf(new Float64Array(width / 2), (i) => [i, i + width / 2])
    const turn = { pairs, theta: Float64Array.from({ length: width / 2 }, (_, i) => theta[i] ?? 0) }
    const { q, k, perToken } = contents(s, along(s, turn), once)
    const what = [...decided(s, turn), s.gain, first]
    const wheel = once("wheel", [width, theta.join(), s.seed, s.gain, length, first], () => {
      const [cosine, sine] = [new Float64Array((length * width) / 2).fill(1), new Float64Array((length * width) / 2)]
      const [cos, sin] = [sums(theta, cosines, length, first, Math.cos), sums(theta, sines, length, first, Math.sin)]
      for (let p = 0; p < length; p++) {
        cosine.set(cos.subarray(p * count, (p + 1) * count), (p * width) / 2)
        sine.set(sin.subarray(p * count, (p + 1) * count), (p * width) / 2)
      }
      return { cosine, sine }
    })
    const rows = (/** @type {Float64Array} */ x) => turnedBy(x, length, width, pairs, wheel)
    const [values, keys] = [once("queries", what, () => rows(q)), once("keys", what, () => rows(k))]
    const keyRow = rowsOf(keys, width)
    return {
      pattern: patternOf(values, width),
      ...dots(once, [...what, perToken], values, keys, width),
      ...turn,
      keyRow,
    }
  },

  none: (s, _given, once) => {
    const { length, width } = s
    const { q, k, perToken } = contents(s, new Float64Array(width).fill(1), once)
    const what = [s.content, s.seed, s.words, length, width]
    const wide = (/** @type {Float64Array} */ x) =>
      Float64Array.from({ length: length * width }, (_, i) => x[perToken ? i : i % width])
    const values = once("queries", what, () => wide(q))
    const pattern = patternOf(values, width)
    const keyRow = (/** @type {number} */ n) => (perToken ? k.subarray(n * width, (n + 1) * width) : k)
    if (perToken) return { pattern, ...dots(once, what, values, k, width), keyRow }
    const score = q.reduce((sum, x, i) => sum + x * k[i], 0)
    return { pattern, band: overDistances(length, () => score), curve: () => score, keyRow }
  },
}

/** Sums of all waves, one for each pair, at each position.
 * @type {(theta: Float64Array, mix: Float64Array, length: number, first: number, wave: (angle: number) => number) =>
 *   Float64Array} */
const sums = (theta, mix, length, first, wave) => {
  const count = theta.length
  const totals = new Float64Array(length * count)
  for (let p = 0; p < length; p++) {
    for (let j = 0; j < count; j++) {
      const height = wave((p + first) * theta[j])
      for (let i = 0; i < count; i++) totals[p * count + i] += height * mix[j * count + i]
    }
  }
  return totals
}
