// RoPE's frequencies stretched to longer texts. posenc.rotate.frequencies in another language.

import { frequencies } from "./waves.js"

/** @typedef {{ theta: Float64Array, attention: number }} Stretched the attention factor multiplies cos and sin */

/** @param {number} value @param {number} low @param {number} high */
const clip = (value, low, high) => Math.min(high, Math.max(low, value))

/** @param {number} dim @param {number} factor @param {number} base @returns {Stretched} */
export const linear = (dim, factor, base) => ({ theta: frequencies(dim, base).map((t) => t / factor), attention: 1 })

/** @param {number} dim @param {number} factor @param {number} base @returns {Stretched} */
export const ntk = (dim, factor, base) => ({
  theta: frequencies(dim, base).map((t, i) => t * factor ** ((-2 * i) / (dim - 2))),
  attention: 1,
})

/** @type {(dim: number, factor: number, length: number, original: number, base: number) => Stretched} */
export const dynamicNtk = (dim, factor, length, original, base) =>
  ntk(dim, 1 + factor * (Math.max(length / original, 1) - 1), base)

/** @type {(dim: number, factor: number, original: number, base: number,
 *   options: { fast: number, slow: number, truncate?: boolean, attention?: number }) => Stretched} */
export const yarn = (dim, factor, original, base, { fast, slow, truncate = true, attention }) => {
  const pair = (/** @type {number} */ turns) =>
    (dim * Math.log(original / (2 * Math.PI * turns))) / (2 * Math.log(base))
  const low = Math.max(truncate ? Math.floor(pair(fast)) : pair(fast), 0)
  const high = Math.min(truncate ? Math.ceil(pair(slow)) : pair(slow), dim - 1)
  const theta = frequencies(dim, base).map((t, i) => {
    const ramp = clip((i - low) / Math.max(high - low, 0.001), 0, 1)
    return t * (1 - ramp + ramp / factor)
  })
  return { theta, attention: attention ?? 0.1 * Math.log(Math.max(factor, 1)) + 1 }
}

/** @type {(dim: number, factor: number, original: number, base: number,
 *   options: { fast: number, slow: number, truncate?: boolean }) => Stretched} */
export const byParts = (dim, factor, original, base, options) =>
  yarn(dim, factor, original, base, { ...options, attention: 1 })

/** @type {(dim: number, factor: number, original: number, base: number, bounds: { low: number, high: number }) =>
 *   Stretched} */
export const llama3 = (dim, factor, original, base, { low, high }) => ({
  theta: frequencies(dim, base).map((t) => {
    const turns = (original * t) / (2 * Math.PI)
    const ramp = high > low ? clip((high - turns) / (high - low), 0, 1) : Number(turns < low)
    return t * (1 - ramp + ramp / factor)
  }),
  attention: 1,
})

/** @param {number} dim @param {ArrayLike<number>} divisors one for each pair @param {number} factor
 * @param {number} original @param {number} base @returns {Stretched} */
export const longrope = (dim, divisors, factor, original, base) => ({
  theta: frequencies(dim, base).map((t, i) => t / divisors[i]),
  attention: Math.sqrt(1 + Math.log(Math.max(factor, 1)) / Math.log(original)),
})

/** @param {number} dim @param {number} fraction @param {number} base @returns {Stretched} */
export const proportional = (dim, fraction, base) => ({
  theta: frequencies(dim, base).map((t, i) => (i < Math.floor((fraction * dim) / 2) ? t : 0)),
  attention: 1,
})
