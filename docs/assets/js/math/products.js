// All products of the rows of two tables.

/** @param {Float64Array} table @param {number} dim */
const rowsOf = (table, dim) =>
  Array.from({ length: table.length / dim }, (_, m) => table.subarray(m * dim, (m + 1) * dim))

/** Two rows by two: each number is read once for two products. At an edge a row stands for its absent neighbor too. @param {Float64Array} found @param {Float64Array[]} a @param {Float64Array[]} b @param {number} m @param {number} n */
const fourProducts = (found, a, b, m, n) => {
  const below = Math.min(m + 1, a.length - 1)
  const beside = Math.min(n + 1, b.length - 1)
  const [q0, q1, k0, k1] = [a[m], a[below], b[n], b[beside]]
  let [s, t, u, v] = [0, 0, 0, 0]
  for (let i = 0; i < q0.length; i++) {
    s += q0[i] * k0[i]
    t += q0[i] * k1[i]
    u += q1[i] * k0[i]
    v += q1[i] * k1[i]
  }
  found[m * b.length + n] = s
  found[m * b.length + beside] = t
  found[below * b.length + n] = u
  found[below * b.length + beside] = v
}

/** Every product of a row of `a` with a row of `b`. @param {Float64Array} a @param {Float64Array} b @param {number} dim @returns {Float64Array} */
export const products = (a, b, dim) => {
  const [rows, columns] = [rowsOf(a, dim), rowsOf(b, dim)]
  const found = new Float64Array(rows.length * columns.length)
  const mirrored = a === b // then those above the diagonal are those below it
  for (let m = 0; m < rows.length; m += 2)
    for (let n = 0; n < (mirrored ? m + 1 : columns.length); n += 2) fourProducts(found, rows, columns, m, n)
  if (mirrored)
    for (let m = 0; m < rows.length; m++)
      for (let n = 0; n < m; n++) found[n * rows.length + m] = found[m * rows.length + n]
  return found
}
