// Whole tables at once: every row turned to its position, and a list drawn out.

/** @typedef {(p: number, i: number) => number} OfPair a number for pair i of row p */

/**
 * Rows with pairs of channels mixed, (a, b) into (a · cosine − b · sine, b · cosine + a · sine). `x` is one vector for all, or a row for each.
 * @param {Float64Array} x @param {number} length @param {number} dim @param {Array<[number, number]>} pairs @param {OfPair} cosine @param {OfPair} sine
 */
export const mixedBy = (x, length, dim, pairs, cosine, sine) => {
  const mixed = new Float64Array(length * dim)
  const step = x.length > dim ? dim : 0
  for (let i = 0; i < pairs.length; i++) {
    const [a, b] = pairs[i]
    for (let p = 0; p < length; p++) {
      const [c, s] = [cosine(p, i), sine(p, i)]
      const [u, v] = [x[p * step + a], x[p * step + b]]
      mixed[p * dim + a] = u * c - v * s
      mixed[p * dim + b] = v * c + u * s
    }
  }
  return mixed
}

/** Rows turned by an angle for each pair, and stretched. @param {Float64Array} x @param {number} length @param {number} dim @param {Array<[number, number]>} pairs @param {OfPair} angle @param {OfPair} [size] */
export const turnedBy = (x, length, dim, pairs, angle, size = () => 1) =>
  mixedBy(
    x,
    length,
    dim,
    pairs,
    (p, i) => size(p, i) * Math.cos(angle(p, i)),
    (p, i) => size(p, i) * Math.sin(angle(p, i)),
  )

/** `count` numbers along a list, from its first to its last, with straight lines between. @param {ArrayLike<number>} list @param {number} count @returns {Float64Array} */
export const resample = (list, count) =>
  Float64Array.from({ length: count }, (_, i) => {
    const place = count > 1 ? (i * (list.length - 1)) / (count - 1) : 0
    const before = Math.min(Math.floor(place), list.length - 2)
    return list[before] + (place - before) * (list[before + 1] - list[before])
  })
