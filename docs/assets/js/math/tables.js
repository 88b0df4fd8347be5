// Whole tables at once: every row turned to its position, and a list drawn out.

/** @typedef {{ cosine: Float64Array, sine: Float64Array }} Wheel what mixes each pair of each row, row by row */

/** Cosines and sines of the angle of pair i of row p, stretched by its size.
 * @param {number} length @param {number} count of pairs @param {(p: number, i: number) => number} angle
 * @param {(p: number, i: number) => number} [size] @returns {Wheel} */
export const wheelOf = (length, count, angle, size) => {
  const [cosine, sine] = [new Float64Array(length * count), new Float64Array(length * count)]
  for (let p = 0, at = 0; p < length; p++) {
    for (let i = 0; i < count; i++, at++) {
      const turn = angle(p, i)
      const wide = size ? size(p, i) : 1
      cosine[at] = wide * Math.cos(turn)
      sine[at] = wide * Math.sin(turn)
    }
  }
  return { cosine, sine }
}

/** Rows with pairs of channels mixed, (a, b) into (a · cosine − b · sine, b · cosine + a · sine). `x` is one vector for
 * all, or a row for each.
 * @type {(x: Float64Array, length: number, dim: number, pairs: Array<[number, number]>, wheel: Wheel) => Float64Array}
 */
export const turnedBy = (x, length, dim, pairs, { cosine, sine }) => {
  const turned = new Float64Array(length * dim)
  const step = x.length > dim ? dim : 0
  const [first, second] = [0, 1].map((side) => Int32Array.from(pairs, (pair) => pair[side]))
  const count = pairs.length
  for (let p = 0, at = 0; p < length; p++) {
    const [from, to] = [p * step, p * dim]
    for (let i = 0; i < count; i++, at++) {
      const a = first[i]
      const b = second[i]
      const u = x[from + a]
      const v = x[from + b]
      turned[to + a] = u * cosine[at] - v * sine[at]
      turned[to + b] = v * cosine[at] + u * sine[at]
    }
  }
  return turned
}

/** `count` numbers along a list, from its first to its last, with straight lines between.
 * @type {(list: ArrayLike<number>, count: number) => Float64Array} */
export const resample = (list, count) =>
  Float64Array.from({ length: count }, (_, i) => {
    const place = count > 1 ? (i * (list.length - 1)) / (count - 1) : 0
    const before = Math.min(Math.floor(place), list.length - 2)
    return list[before] + (place - before) * (list[before + 1] - list[before])
  })
