// The strongest components of a table of rows, the overtones that smooth tables show, and tables that nothing trained.

import { randomState } from "./random.js"

/** The table with its mean row taken away. @param {ArrayLike<number>} table @param {number} dim */
export const centered = (table, dim) => {
  const mean = new Float64Array(dim)
  for (let i = 0; i < table.length; i++) mean[i % dim] += (table[i] * dim) / table.length
  return Float64Array.from(table, (value, i) => value - mean[i % dim])
}

/** Eigenvalues of a symmetric matrix, largest first, and their vectors of length one, by Jacobi's rotations.
 * @type {(matrix: ArrayLike<number>, size: number) => { values: number[], vectors: Float64Array[] }} */
export const eigen = (matrix, size) => {
  const rows = Array.from({ length: size }, (_, i) =>
    Float64Array.from({ length: size }, (_, j) => matrix[i * size + j]),
  )
  const vectors = rows.map((_, i) => Float64Array.from(rows, (_, j) => Number(i === j)))
  const small = 1e-14 * Math.hypot(...rows.map((row) => Math.hypot(...row)))
  for (let turns = 1; turns > 0;) {
    turns = 0
    for (let p = 0; p < size; p++) {
      for (let q = p + 1; q < size; q++) if (Math.abs(rows[p][q]) > small) turns += turn(rows, vectors, p, q)
    }
  }
  const order = rows.map((_, i) => i).sort((i, j) => rows[j][j] - rows[i][i])
  return { values: order.map((i) => rows[i][i]), vectors: order.map((i) => vectors[i]) }
}

/** Turn axes p and q until they no longer mix.
 * @type {(rows: Float64Array[], vectors: Float64Array[], p: number, q: number) => number} */
const turn = (rows, vectors, p, q) => {
  const slope = (rows[q][q] - rows[p][p]) / (2 * rows[p][q])
  const tangent = (slope < 0 ? -1 : 1) / (Math.abs(slope) + Math.hypot(slope, 1))
  const cosine = 1 / Math.hypot(tangent, 1)
  const sine = tangent * cosine
  for (const row of rows) [row[p], row[q]] = [cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]]
  for (const pair of [rows, vectors]) {
    const [a, b] = [pair[p], pair[q]]
    for (let i = 0; i < a.length; i++) {
      const before = a[i]
      a[i] = cosine * before - sine * b[i]
      b[i] = sine * before + cosine * b[i]
    }
  }
  return 1
}

/** Overtone j of a string of `length` beads with free ends, of norm one: j half waves.
 * @type {(j: number, length: number) => Float64Array} */
export const overtone = (j, length) =>
  Float64Array.from({ length }, (_, p) => Math.sqrt(2 / length) * Math.cos((Math.PI * j * (p + 0.5)) / length))

/** Noise, `margin` rows longer at both ends than `length`.
 * @type {(length: number, dim: number, margin: number, seed: number) => Float64Array} */
export const noise = (length, dim, margin, seed) =>
  Float64Array.from({ length: (length + 2 * margin) * dim }, randomState(seed).normal)

/** Each row becomes a blend of the rows around it, those within about `reach` the most; the margins go.
 * @type {(rows: ArrayLike<number>, dim: number, margin: number, reach: number) => Float64Array} */
export const blended = (rows, dim, margin, reach) => {
  const mixed = new Float64Array(rows.length - 2 * margin * dim)
  for (let shift = -margin; shift <= margin; shift++) {
    const weight = shift === 0 ? 1 : Math.exp(-0.5 * (shift / reach) ** 2)
    if (weight < 1e-14) continue
    for (let i = 0; i < mixed.length; i++) mixed[i] += weight * rows[i + (margin + shift) * dim]
  }
  return mixed
}
