// Frequencies, and what sines and cosines of positions give. posenc.add.sinusoidal in another language.

/** How fast each pair turns, fastest first. @param {number} dim @param {number} base @param {string} [order] */
export const frequencies = (dim, base, order = "interleaved") => {
  const half = Math.floor(dim / 2)
  const steps = order === "tensor2tensor" ? half - 1 : dim / 2
  return Float64Array.from({ length: half }, (_, i) => base ** (-i / steps))
}

/** The table of positions start, start + 1, …: `length` rows of `dim` channels.
 * @type {(length: number, dim: number, theta: Float64Array, order?: string, start?: number) => Float64Array} */
export const sinusoidal = (length, dim, theta, order = "interleaved", start = 0) => {
  const table = new Float64Array(length * dim)
  const [second, step] = order === "interleaved" ? [1, 2] : [theta.length, 1]
  for (let p = 0; p < length; p++) {
    for (let i = 0; i < theta.length; i++) {
      const angle = (p + start) * theta[i]
      table[p * dim + i * step] = Math.sin(angle)
      table[p * dim + i * step + second] = Math.cos(angle)
    }
  }
  return table
}

/** PE[p] . PE[p + distance], the same at every p. @param {number} distance @param {Float64Array} theta */
export const kernel = (distance, theta) => {
  let sum = 0
  for (let i = 0; i < theta.length; i++) sum += Math.cos(distance * theta[i])
  return sum
}
