// Which tiles of a square of queries and keys a kernel must compute.

/** Keys less than `width` away, which may be all; documents begin at `starts`.
 * @typedef {{ causal: boolean, width: number, starts: number[] }} Mask */

/** @param {Mask} mask @param {number} m @param {number} n */
export const shows = ({ causal, width, starts }, m, n) =>
  (!causal || n <= m) && Math.abs(m - n) < width && !starts.some((start) => m < start !== n < start)

/** For each tile, row by row, how many of its pairs are shown.
 * @type {(tokens: number, tile: number, mask: Mask) => Uint32Array} */
export const shownInTiles = (tokens, tile, mask) => {
  const across = Math.ceil(tokens / tile)
  const counts = new Uint32Array(across * across)
  for (let m = 0; m < tokens; m++) {
    const row = Math.floor(m / tile) * across
    for (let n = 0; n < tokens; n++) if (shows(mask, m, n)) counts[row + Math.floor(n / tile)]++
  }
  return counts
}

/** The counts of tiles twice as wide and as high. @param {Uint32Array} counts @returns {Uint32Array} */
export const pooled = (counts) => {
  const across = Math.sqrt(counts.length)
  const half = across / 2
  return Uint32Array.from({ length: half * half }, (_, i) => {
    const corner = 2 * Math.floor(i / half) * across + 2 * (i % half)
    return counts[corner] + counts[corner + 1] + counts[corner + across] + counts[corner + across + 1]
  })
}
