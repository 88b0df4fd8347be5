// A grid of rows resampled to another size, rightly and wrongly: which old rows each new one mixes.
// posenc.add.learned.resize_grid in another language.

/** @typedef {{ kernel: string, antialias?: boolean, corners?: boolean }} Method kernel: "linear" or "cubic" */
/** @typedef {[number, number]} Size height, width */
/** @typedef {[number, number]} Tap an old row and its weight */

/** Keys' cubic, or a triangle. @param {string} kernel @param {number} x @param {number} a of the cubic */
const bump = (kernel, x, a) => {
  const d = Math.abs(x)
  if (kernel === "linear") return Math.max(0, 1 - d)
  if (d < 1) return ((a + 2) * d - (a + 3)) * d * d + 1
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0
}

/** What new row j of an axis mixes. PyTorch's antialiasing brings a cubic of its own.
 * @type {(j: number, old: number, size: number, method: Method) => Tap[]} */
export const taps = (j, old, size, { kernel, antialias = false, corners = false }) => {
  const centered = (j + 0.5) * (old / size) - 0.5
  const place = corners ? (size > 1 ? (j * (old - 1)) / (size - 1) : 0) : centered
  const wide = antialias ? Math.max(1, old / size) : 1
  const reach = (kernel === "cubic" ? 2 : 1) * wide
  /** @type {Map<number, number>} */
  const weights = new Map()
  for (let p = Math.floor(place - reach); p <= Math.ceil(place + reach); p++) {
    const weight = bump(kernel, (p - place) / wide, antialias ? -0.5 : -0.75)
    const inside = Math.min(old - 1, Math.max(0, p))
    if (weight && !(antialias && p !== inside)) weights.set(inside, (weights.get(inside) ?? 0) + weight)
  }
  const sum = Array.from(weights.values()).reduce((a, b) => a + b, 0)
  return Array.from(weights, ([p, weight]) => [p, weight / sum])
}

/** What patch k of the new grid mixes, in raster order; -1 is the class row.
 * @param {string} way "as a grid", "class row inside", "as one line" or "axes swapped" @param {number} k
 * @param {Size} old @param {Size} size @param {Method} method @returns {Tap[]} */
export const mixture = (way, k, old, size, method) => {
  const shrinks = size[0] * size[1] < old[0] * old[1]
  const line = { kernel: "linear", antialias: shrinks, corners: !shrinks }
  if (way === "as one line") return taps(k, old[0] * old[1], size[0] * size[1], line)
  const [i, j] =
    way === "axes swapped" ? [k % size[0], Math.floor(k / size[0])] : [Math.floor(k / size[1]), k % size[1]]
  const across = taps(j, old[1], size[1], method)
  const slip = way === "class row inside" ? 1 : 0
  return taps(i, old[0], size[0], method).flatMap(([p, weight]) =>
    across.map(([q, other]) => /** @type {Tap} */ ([p * old[1] + q - slip, weight * other])),
  )
}

/** The place in the old grid, as (row, column), that a mixture stands for; the class row stands at (-1, -1).
 * @param {Tap[]} mixed @param {number} width of the old grid @returns {[number, number]} */
export const origin = (mixed, width) => {
  const along = (/** @type {(p: number) => number} */ where) =>
    mixed.reduce((sum, [p, w]) => sum + w * (p < 0 ? -1 : where(p)), 0)
  return [along((p) => Math.floor(p / width)), along((p) => p % width)]
}

/** The place under the center of patch k. @type {(k: number, old: Size, size: Size) => [number, number]} */
export const wanted = (k, old, size) => [
  ((Math.floor(k / size[1]) + 0.5) * old[0]) / size[0] - 0.5,
  (((k % size[1]) + 0.5) * old[1]) / size[1] - 0.5,
]
