// What is added to a token: tables, waves, and filters over its neighbors. posenc.add in another language.

import { gelu } from "../../math/gelu.js"
import { randomState } from "../../math/random.js"
import { frequencies, kernel, sinusoidal } from "../../math/waves.js"
import { contents, dots, draws, overDistances, pairsOf, patternOf, vectorAt, weights } from "./common.js"

/** @import { Encodings, Once, State } from "../types.js" */

/** The places of sine and cosine of frequency k of an axis, in each order.
 * @type {Record<string, (axis: number, k: number, count: number) => [number, number]>} */
const ORDERS = {
  mae: (axis, k, count) => [2 * (1 - axis) * count + k, (2 * (1 - axis) + 1) * count + k],
  timm: (axis, k, count) => [axis * count + k, (2 + axis) * count + k],
  "timm-axes": (axis, k, count) => [2 * axis * count + k, (2 * axis + 1) * count + k],
  detr: (axis, k, count) => [2 * (axis * count + k), 2 * (axis * count + k) + 1],
}

/** How often each feature turns while a coordinate grows by 1. @param {State} s */
const cyclesOf = (s) => {
  const count = s.width / 2
  if (s.features === "gaussian") return draws(count, weights(s).normal, s.scale)
  if (s.features === "powers") return Float64Array.from({ length: count }, (_, i) => 2 ** i / 2)
  const [low, high] = [0.5, s.length / 4]
  const step = (high - low) / (count - 1)
  return Float64Array.from({ length: count }, (_, i) => Math.fround(i && i === count - 1 ? high : low + i * step))
}

/** The filter over neighbors: of the same content everywhere, or of tokens. @param {State} s @param {Once} once */
const filtered = (s, once) => contents(s, new Float64Array(s.width).fill(1), once)

/** @type {Encodings} */
export const ADD = {
  sinusoidal: (s, _given, once) => {
    const { length, width, base, order, first } = s
    const theta = frequencies(width, base, order)
    const values = once("table", [length, width, base, order, first], () =>
      sinusoidal(length, width, theta, order, first),
    )
    const curve = (/** @type {number} */ distance) => kernel(distance, theta)
    const band = once("band", [length, width, base, order === "tensor2tensor"], () => {
      const half = Float64Array.from({ length }, (_, distance) => curve(distance))
      return overDistances(length, (distance) => half[Math.abs(distance)])
    })
    const pairs = pairsOf(theta, (i) => (order === "interleaved" ? [2 * i, 2 * i + 1] : [i, i + theta.length]))
    return { pattern: patternOf(values, width), band, curve, theta, pairs }
  },

  learned: (s, data, once) => {
    const { length, width, seed, table } = s
    const what = [length, width, seed, table]
    const values = once("rows", what, () =>
      table === "trained"
        ? Float64Array.from(data.trained.table).slice(0, length * width)
        : draws(length * width, randomState(seed).normal, data.std),
    )
    return { pattern: patternOf(values, width), ...dots(once, what, values, values, width) }
  },

  fourier: (s, _given, once) => {
    const { length, width } = s
    const what = [length, width, s.features, s.scale, s.seed]
    const theta = cyclesOf(s).map((cycles) => (2 * Math.PI * cycles) / length)
    const half = width / 2
    const values = once("table", what, () => {
      const table = new Float64Array(length * width)
      for (let p = 0; p < length; p++) {
        cyclesOf(s).forEach((cycles, i) => {
          const angle = 2 * Math.PI * (((p / length) * cycles) % 1)
          table[p * width + i] = Math.sin(angle)
          table[p * width + half + i] = Math.cos(angle)
        })
      }
      return table
    })
    return {
      pattern: patternOf(values, width),
      ...dots(once, what, values, values, width),
      theta,
      pairs: pairsOf(theta, (i) => [i, i + half]),
    }
  },

  grid: (s, _given, once) => {
    const { length, width, side, base, axes_order } = s
    const count = width / 4
    const theta = Float64Array.from({ length: count }, (_, k) => base ** (-k / count))
    const pairs = [0, 1].flatMap((axis) => pairsOf(theta, (k) => ORDERS[axes_order](axis, k, count)))
    const what = [length, width, base, axes_order]
    const values = once("table", what, () => {
      const table = new Float64Array(length * width)
      for (let p = 0; p < length; p++) {
        pairs.forEach(([sine, cosine], i) => {
          const angle = (i < count ? Math.floor(p / side) : p % side) * theta[i % count]
          table[p * width + sine] = Math.sin(angle)
          table[p * width + cosine] = Math.cos(angle)
        })
      }
      return table
    })
    const pattern = patternOf(values, width)
    return {
      pattern,
      ...dots(once, what, values, values, width),
      ...{ theta: Float64Array.from([...theta, ...theta]), pairs },
    }
  },

  convolution: (s, _given, once) => {
    const { length, width, taps } = s
    const { q: x, perToken } = filtered(s, once)
    const what = [s.content, s.seed, s.words, length, width, taps]
    const values = once("added", what, () => {
      const weight = draws(width * taps, weights(s).normal, 2 / (taps * width) ** 0.5)
      const added = new Float64Array(length * width)
      for (let p = 0; p < length; p++) {
        for (let j = 0; j < taps; j++) {
          const from = p + j - Math.floor(taps / 2)
          if (from < 0 || from >= length) continue
          const near = vectorAt(x, perToken, from, width)
          for (let c = 0; c < width; c++) added[p * width + c] += weight[c * taps + j] * near[c]
        }
      }
      return added.map(gelu)
    })
    return { pattern: patternOf(values, width), ...dots(once, what, values, values, width) }
  },

  conditional: (s, _given, once) => {
    const { length, width, side } = s
    const { q: x, perToken } = filtered(s, once)
    const what = [s.content, s.seed, length, width]
    const values = once("added", what, () => {
      const weight = draws(width * 9, weights(s).normal, 1 / 3)
      const added = new Float64Array(length * width)
      for (let p = 0; p < length; p++) {
        for (let tap = 0; tap < 9; tap++) {
          const [row, column] = [Math.floor(p / side) + Math.floor(tap / 3) - 1, (p % side) + (tap % 3) - 1]
          if (Math.min(row, column) < 0 || Math.max(row, column) >= side) continue
          const near = vectorAt(x, perToken, row * side + column, width)
          for (let c = 0; c < width; c++) added[p * width + c] += weight[c * 9 + tap] * near[c]
        }
      }
      return added
    })
    return { pattern: patternOf(values, width), ...dots(once, what, values, values, width) }
  },
}
