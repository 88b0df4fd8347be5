// Property 2 of the chapter on debugging: where a layer that looks a few tokens back is right, computed from places
// alone.

import { stored } from "./rounding.js"

/** Where queries and keys stand, in this share of the texts.
 * @typedef {{ queries: number[], keys: number[], sick: number }} Places */

const RANGE = { low: -126, high: 127 } // of exponents: float32's, and bfloat16's

/** The places that a bug of some size gives to tokens 0 to `length` - 1; those of a bug with no size ignore it.
 * @type {(bug: string, size: number, length: number) => Places} */
export const places = (bug, size, length) => {
  const exact = Array.from({ length }, (_, p) => p)
  /** @type {Record<string, (p: number) => number>} */
  const moves = {
    bits: (p) => stored(p, { bits: size, ...RANGE }),
    rows: (p) => Math.min(p, size - 1),
    chunks: (p) => p % size,
    writing: (p) => (p < size ? p : 0),
    pads: (p) => p + 3,
  }
  const queries = exact.map(moves[bug] ?? Number)
  const keys = bug === "pads" ? exact : bug === "twice" ? exact.map((p) => 2 * p) : queries
  return { queries, keys, sick: bug === "pads" ? 1 / size : 1 }
}

/** The chance of a right answer at each token from `back` on, among `letters`: chance decides between keys that seem to
 * stand there.
 * @type {(given: Places, back: number, width: number, letters: number) => number[]} */
export const expected = ({ queries, keys, sick }, back, width, letters) =>
  queries.slice(back).map((place, i) => {
    const m = i + back
    let count = 0
    for (let n = Math.max(0, m - width + 1); n <= m; n++) if (place - keys[n] === back) count++
    const hit = place - keys[m - back] === back ? 1 / count : 0
    return 1 - sick * (1 - hit) * (1 - 1 / letters)
  })

/** The means of `width` values each. @param {number[]} values @param {number} width */
export const means = (values, width) =>
  Array.from({ length: Math.floor(values.length / width) }, (_, i) => {
    const part = values.slice(i * width, (i + 1) * width)
    return part.reduce((a, b) => a + b, 0) / width
  })

/** How far two curves lie apart, on average. @param {number[]} a @param {number[]} b */
export const apart = (a, b) => a.reduce((sum, value, i) => sum + Math.abs(value - b[i]), 0) / a.length
