// The exponential of a small matrix, by Taylor's series of a part of it, squared again.

/** @param {Float64Array} a @param {Float64Array} b @param {number} n */
const product = (a, b, n) => {
  const result = new Float64Array(n * n)
  for (let i = 0; i < n; i++)
    for (let l = 0; l < n; l++) for (let j = 0; j < n; j++) result[i * n + j] += a[i * n + l] * b[l * n + j]
  return result
}

/** @param {number} n rows @param {(i: number, j: number) => number} entry @returns {Float64Array} row by row */
export const exponential = (n, entry) => {
  const matrix = Float64Array.from({ length: n * n }, (_, i) => entry(Math.floor(i / n), i % n))
  const size = Math.sqrt(matrix.reduce((sum, x) => sum + x * x, 0))
  const halvings = Math.max(0, Math.ceil(Math.log2(size || 1)) + 1)
  const part = matrix.map((x) => x / 2 ** halvings)
  let sum = Float64Array.from({ length: n * n }, (_, i) => Number(i % (n + 1) === 0))
  let term = sum
  for (let order = 1; order <= 18; order++) {
    term = product(term, part, n).map((x) => x / order)
    sum = sum.map((x, i) => x + term[i])
  }
  for (let i = 0; i < halvings; i++) sum = product(sum, sum, n)
  return sum
}
