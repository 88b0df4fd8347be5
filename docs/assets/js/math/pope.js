// PoPE: magnitudes from content, angles from positions alone. posenc.rotate.pope in another language.

/** One frequency for each channel. @param {number} dim @param {number} base @returns {Float64Array} */
export const frequencies = (dim, base) => Float64Array.from({ length: dim }, (_, c) => base ** (-c / dim))

/** log(1 + e^x), never overflowing. @param {number} x */
export const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)))

/** The score, before 1/√d, for offsets m - n.
 * @param {ArrayLike<number>} q @param {ArrayLike<number>} k @param {ArrayLike<number>} theta
 * @param {ArrayLike<number>} phase within [-2π, 0] @returns {(offset: number) => number} */
export const scorer = (q, k, theta, phase) => {
  const heights = Float64Array.from(theta, (_, c) => softplus(q[c]) * softplus(k[c]))
  return (offset) => {
    let sum = 0
    for (let c = 0; c < heights.length; c++) sum += heights[c] * Math.cos(phase[c] - offset * theta[c])
    return sum
  }
}
