// Pairs that turn with a direction of the plane, and the kernel that they make.
// posenc.rotate.axial's theta in another language.

/** @typedef {{ y: Float64Array, x: Float64Array }} Needles radians for each row and each column */

/** Needles that get shorter from 1 toward 1/base, each turned on by `turn` radians from the one before.
 * @type {(count: number, base: number, turn: number) => Needles} */
export const needles = (count, base, turn) => {
  const along = (/** @type {(angle: number) => number} */ part) =>
    Float64Array.from({ length: count }, (_, i) => base ** (-i / count) * part(turn * i))
  return { y: along(Math.sin), x: along(Math.cos) }
}

/** The mean cosine at an offset: 1 at the query itself. @param {Needles} theta @param {number} y @param {number} x */
export const planeKernel = (theta, y, x) => {
  let sum = 0
  for (let i = 0; i < theta.y.length; i++) sum += Math.cos(y * theta.y[i] + x * theta.x[i])
  return sum / theta.y.length
}

/** The kernel on a square of offsets, row by row.
 * @param {Needles} theta @param {ArrayLike<number>} steps of both axes */
export const planeMap = (theta, steps) => {
  const [count, size] = [theta.y.length, steps.length]
  // cos(a + b) from the cosines and sines of a and b: few of them for many offsets
  const table = (/** @type {Float64Array} */ speeds, /** @type {(angle: number) => number} */ wave) =>
    Float64Array.from({ length: size * count }, (_, n) => wave(steps[Math.floor(n / count)] * speeds[n % count]))
  const [cy, sy, cx, sx] = [Math.cos, Math.sin, Math.cos, Math.sin].map((f, n) => table(n < 2 ? theta.y : theta.x, f))
  const values = new Float64Array(size * size)
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      let sum = 0
      for (let i = 0; i < count; i++) {
        sum += cy[row * count + i] * cx[column * count + i] - sy[row * count + i] * sx[column * count + i]
      }
      values[row * size + column] = sum / count
    }
  }
  return values
}

/** The kernel along a ring, at `count` places from angle 0 on.
 * @type {(theta: Needles, radius: number, count: number) => Float64Array} */
export const onRing = (theta, radius, count) =>
  Float64Array.from({ length: count }, (_, n) => {
    const way = (2 * Math.PI * n) / count
    return planeKernel(theta, radius * Math.sin(way), radius * Math.cos(way))
  })

/** Standard deviation. @param {ArrayLike<number>} values */
export const spread = (values) => {
  const all = Array.from(values)
  const mean = all.reduce((a, b) => a + b, 0) / all.length
  return Math.sqrt(all.reduce((sum, value) => sum + (value - mean) ** 2, 0) / all.length)
}
