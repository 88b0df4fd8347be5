// Whole tables at once: every row turned to its position, and a list drawn out.

import { channels } from "./rope.js"

/**
 * `length` rows turned to positions first, first + 1, …, each by every frequency. `x` is one vector for all, or a row for each.
 * @param {Float64Array} x @param {number} length @param {Float64Array} theta @param {number} dim
 * @param {{ layout: string, first?: number, attention?: number }} options @returns {Float64Array}
 */
export const turnedRows = (x, length, theta, dim, { layout, first = 0, attention = 1 }) => {
  const turned = new Float64Array(length * dim)
  const step = x.length > dim ? dim : 0
  for (let i = 0; i < theta.length; i++) {
    const [a, b] = channels(i, dim, layout)
    for (let p = 0; p < length; p++) {
      const angle = (p + first) * theta[i]
      const [cosine, sine] = [attention * Math.cos(angle), attention * Math.sin(angle)]
      const [u, v] = [x[p * step + a], x[p * step + b]]
      turned[p * dim + a] = u * cosine - v * sine
      turned[p * dim + b] = v * cosine + u * sine
    }
  }
  return turned
}

/** `count` numbers along a list, from its first to its last, with straight lines between. @param {ArrayLike<number>} list @param {number} count @returns {Float64Array} */
export const resample = (list, count) =>
  Float64Array.from({ length: count }, (_, i) => {
    const place = count > 1 ? (i * (list.length - 1)) / (count - 1) : 0
    const before = Math.min(Math.floor(place), list.length - 2)
    return list[before] + (place - before) * (list[before + 1] - list[before])
  })
