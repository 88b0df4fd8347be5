// Frequencies, and what sines and cosines of positions give. posenc.add.sinusoidal in another language.

/** How fast each pair turns, fastest first. @param {number} dim @param {number} base @param {string} [order] @returns {Float64Array} */
export const frequencies = (dim, base, order = "interleaved") => {
  const half = Math.floor(dim / 2)
  const steps = order === "tensor2tensor" ? half - 1 : dim / 2
  return Float64Array.from({ length: half }, (_, i) => base ** (-i / steps))
}

/** The table of positions start, start + 1, …: `length` rows of `dim` channels. @param {number} length @param {number} dim @param {Float64Array} theta @param {string} [order] @param {number} [start] @returns {Float64Array} */
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

/** Every product of two rows of a table. @param {ArrayLike<number>} table @param {number} dim @returns {Float64Array} */
export const gram = (table, dim) => {
  const length = table.length / dim
  const rows = Float64Array.from(table)
  const products = new Float64Array(length * length)
  for (let m = 0; m < length; m += 2) {
    const pair = m + 1 < length
    for (let n = 0; n <= m + 1 && n < length; n += 2) {
      const beside = n + 1 < length
      let [a, b, c, d] = [0, 0, 0, 0] // two rows by two: each number is read once for two products
      for (let i = 0; i < dim; i++) {
        const m0 = rows[m * dim + i]
        const m1 = pair ? rows[(m + 1) * dim + i] : 0
        const n0 = rows[n * dim + i]
        const n1 = beside ? rows[(n + 1) * dim + i] : 0
        a += m0 * n0
        b += m0 * n1
        c += m1 * n0
        d += m1 * n1
      }
      products[m * length + n] = products[n * length + m] = a
      if (beside) products[m * length + n + 1] = products[(n + 1) * length + m] = b
      if (pair) products[(m + 1) * length + n] = products[n * length + m + 1] = c
      if (pair && beside) products[(m + 1) * length + n + 1] = products[(n + 1) * length + m + 1] = d
    }
  }
  return products
}
