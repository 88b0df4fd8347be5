// Whole tables at once: all products of two of them, and every row turned to its position.

import { channels } from "./rope.js"

/** Every product of a row of `a` with a row of `b`. @param {Float64Array} a @param {Float64Array} b @param {number} dim @returns {Float64Array} */
export const products = (a, b, dim) => {
  const [rows, columns] = [a.length / dim, b.length / dim]
  const found = new Float64Array(rows * columns)
  for (let m = 0; m < rows; m += 2) {
    const below = m + 1 < rows ? dim : 0
    for (let n = 0; n < columns; n += 2) {
      const beside = n + 1 < columns ? dim : 0
      let [s, t, u, v] = [0, 0, 0, 0] // two rows by two: each number is read once for two products
      const [left, top] = [m * dim, n * dim]
      for (let i = 0; i < dim; i++) {
        const m0 = a[left + i]
        const m1 = a[left + below + i]
        const n0 = b[top + i]
        const n1 = b[top + beside + i]
        s += m0 * n0
        t += m0 * n1
        u += m1 * n0
        v += m1 * n1
      }
      const at = m * columns + n
      found[at] = s
      if (beside) found[at + 1] = t
      if (below) found[at + columns] = u
      if (beside && below) found[at + columns + 1] = v
    }
  }
  return found
}

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
