// Turn pairs of channels, and score two vectors that were turned. posenc.rotate.rope in another language.

/** The channels of pair i. @param {number} i @param {number} dim @param {string} layout "half" or "interleaved" */
export const channels = (i, dim, layout) => (layout === "half" ? [i, i + dim / 2] : [2 * i, 2 * i + 1])

/** `x` at `position`.
 * @type {(x: ArrayLike<number>, position: number, theta: ArrayLike<number>, layout: string, attention?: number) =>
 *   Float64Array} */
export const rope = (x, position, theta, layout, attention = 1) => {
  const turned = Float64Array.from(x)
  for (let i = 0; i < theta.length; i++) {
    const [a, b] = channels(i, x.length, layout)
    const cosine = attention * Math.cos(position * theta[i])
    const sine = attention * Math.sin(position * theta[i])
    turned[a] = x[a] * cosine - x[b] * sine
    turned[b] = x[b] * cosine + x[a] * sine
  }
  return turned
}

/** q at m times k at n, for offsets m - n: each pair gives a cosine, whose height and start the two vectors set.
 * @type {(q: ArrayLike<number>, k: ArrayLike<number>, theta: ArrayLike<number>, layout: string, attention?: number) =>
 *   (offset: number) => number} */
export const scorer = (q, k, theta, layout, attention = 1) => {
  const heights = new Float64Array(theta.length)
  const starts = new Float64Array(theta.length)
  for (let i = 0; i < theta.length; i++) {
    const [a, b] = channels(i, q.length, layout)
    heights[i] = attention ** 2 * Math.hypot(q[a], q[b]) * Math.hypot(k[a], k[b])
    starts[i] = Math.atan2(q[b], q[a]) - Math.atan2(k[b], k[a])
  }
  return (offset) => {
    let sum = 0
    for (let i = 0; i < heights.length; i++) sum += heights[i] * Math.cos(offset * theta[i] + starts[i])
    return sum
  }
}
