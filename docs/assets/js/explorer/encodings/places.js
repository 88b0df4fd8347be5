// What turns by places of two or more numbers, or by what tokens say themselves. posenc.rotate in another language.

import { exponential } from "../../math/exponential.js"
import { turnedBy, wheelOf } from "../../math/tables.js"
import { frequencies } from "../../math/waves.js"
import { contents, dot, dots, draws, pairsOf, patternOf, rowsOf, vectorAt, weights } from "./common.js"
import { along } from "./rotate.js"

/** @import { Encoded, Encodings, Once, State } from "../types.js" */

/** Time, row and column of each token: text, a picture, text. posenc.models.mrope
 * @type {(s: State) => Array<[number, number, number]>} */
const imagePlaces = ({ before, side, length }) => {
  const square = side * side
  return Array.from({ length }, (_, p) => {
    const patch = p - before
    if (patch < 0) return [p, p, p]
    if (patch >= square) return /** @type {[number, number, number]} */ (Array(3).fill(patch - square + before + side))
    return [before, before + Math.floor(patch / side), before + (patch % side)]
  })
}

/** The axis of each pair. @param {State} s */
const axesOf = ({ width, interleaved }) => {
  const pairs = width / 2
  const count = Math.floor(((interleaved ? 5 : 6) * width) / 32)
  return Array.from({ length: pairs }, (_, i) => {
    if (!interleaved) return i < pairs - 2 * count ? 0 : i < pairs - count ? 1 : 2
    const axis = i % 3
    return axis && i < 3 * count ? axis : 0
  })
}

/** Queries and keys, each turned by its own angles.
 * @type {(s: State, once: Once, what: unknown[], turn: { pairs: Array<[number, number]>, theta: Float64Array },
 *   ofQuery: (p: number, i: number) => number, ofKey?: (p: number, i: number) => number) => Encoded} */
const turnedTo = (s, once, what, { pairs, theta }, ofQuery, ofKey = ofQuery) => {
  const { length, width } = s
  const { q, k } = contents(s, along(s, { pairs, theta }), once)
  const key = [s.content, s.seed, s.words, length, width, s.base, ...what]
  const wheel = once("wheel", key, () => wheelOf(length, pairs.length, ofQuery))
  const other = ofKey === ofQuery ? wheel : once("keys wheel", key, () => wheelOf(length, pairs.length, ofKey))
  const values = once("queries", key, () => turnedBy(q, length, width, pairs, wheel))
  const keys = once("keys", key, () => turnedBy(k, length, width, pairs, other))
  const keyRow = rowsOf(keys, width)
  const pattern = patternOf(values, width)
  return { pattern, ...dots(once, key, values, keys, width), theta, pairs, keyRow }
}

/** @param {State} s */
const halves = (s) => {
  const theta = frequencies(s.width, s.base)
  return { theta, pairs: pairsOf(theta, (i) => [i, i + s.width / 2]) }
}

/** @type {Encodings} */
export const PLACES = {
  axial: (s, _given, once) => {
    const { width, side, layout } = s
    const count = width / 4
    const theta = Float64Array.from({ length: 2 * count }, (_, i) => s.base ** (-(i % count) / count))
    const pairs = pairsOf(theta, (i) => (layout === "half" ? [i, i + width / 2] : [2 * i, 2 * i + 1]))
    const angle = (/** @type {number} */ p, /** @type {number} */ i) =>
      (i < count ? Math.floor(p / side) : p % side) * theta[i]
    return turnedTo(s, once, [side, layout], { pairs, theta }, angle)
  },

  mrope: (s, _given, once) => {
    const [turn, places, axes] = [halves(s), imagePlaces(s), axesOf(s)]
    const what = [s.before, s.side, s.interleaved]
    return turnedTo(s, once, what, turn, (p, i) => places[p][axes[i]] * turn.theta[i])
  },

  liere: (s, _given, once) => {
    const { length, width, side, spread } = s
    const block = Number(s.block)
    const count = width / block
    const { q, k } = contents(s, new Float64Array(width).fill(1), once)
    const what = [s.content, s.seed, length, width, side, block, spread]
    const rotations = once("rotations", what, () => {
      const raw = draws(2 * width * block, weights(s).uniform, 2 * Math.PI * spread)
      return Array.from({ length }, (_, p) => {
        const [row, column] = [Math.floor(p / side) / side, (p % side) / side]
        const at = (/** @type {number} */ i) => row * raw[i] + column * raw[width * block + i]
        return Array.from({ length: count }, (_, b) => {
          const from = b * block * block
          return exponential(block, (i, j) =>
            i < j ? at(from + i * block + j) : i > j ? -at(from + j * block + i) : 0,
          )
        })
      })
    })
    const rows = (/** @type {Float64Array} */ x) => {
      const turned = new Float64Array(length * width)
      rotations.forEach((blocks, p) => {
        const own = vectorAt(x, x.length > width, p, width)
        for (let c = 0; c < width; c++) {
          const [b, i] = [Math.floor(c / block), c % block]
          turned[p * width + c] = dot(blocks[b].subarray(i * block, (i + 1) * block), own, b * block)
        }
      })
      return turned
    }
    const [values, keys] = [once("queries", what, () => rows(q)), once("keys", what, () => rows(k))]
    const keyRow = rowsOf(keys, width)
    return { pattern: patternOf(values, width), ...dots(once, what, values, keys, width), keyRow }
  },

  selective: (s, _given, once) => {
    const { length, width, strength } = s
    const turn = halves(s)
    const half = width / 2
    const { k, perToken } = contents(s, along(s, turn), once)
    const sums = once("sums", [s.content, s.seed, s.words, length, width, s.base, strength], () => {
      const weight = draws(half * width, weights(s).normal, strength)
      const phases = new Float64Array(length * half)
      for (let p = 0; p < length; p++) {
        const key = vectorAt(k, perToken, p, width)
        for (let i = 0; i < half; i++) {
          const phase = turn.theta[i] * (dot(key, weight, i * width) + 1)
          phases[p * half + i] = (p ? phases[(p - 1) * half + i] : 0) + phase
        }
      }
      return phases
    })
    return turnedTo(s, once, [strength], turn, (p, i) => sums[p * half + i])
  },

  repo: (s, _given, once) => {
    const { width, strength } = s
    const turn = halves(s)
    const inner = Math.max(1, Math.floor(width / 8))
    const { q, k, perToken } = contents(s, along(s, turn), once)
    const [gate, content, final] = once("network", [s.seed, width, strength], () => {
      const { normal } = weights(s)
      return [inner * width, inner * width, inner].map((count) => draws(count, normal, strength))
    })
    const places = (/** @type {Float64Array} */ x) =>
      Float64Array.from({ length: s.length }, (_, p) => {
        const own = vectorAt(x, perToken, p, width)
        let place = 0
        for (let u = 0; u < inner; u++) {
          const gated = dot(own, gate, u * width)
          place += ((final[u] * gated) / (1 + Math.exp(-gated))) * dot(own, content, u * width)
        }
        return place
      })
    const [at, from] = [places(q), places(k)]
    const angle = (/** @type {Float64Array} */ all) => (/** @type {number} */ p, /** @type {number} */ i) =>
      all[p] * turn.theta[i]
    return turnedTo(s, once, [strength], turn, angle(at), angle(from))
  },
}
