// Matrices as pictures, in the colormaps of the book's figures.

import { MAPS } from "./colormaps.js"

/** @import { Box } from "./plot.js" */

/** @type {Map<string, Uint32Array>} */
const tables = new Map()
/** @type {WeakMap<CanvasRenderingContext2D, HTMLCanvasElement>} */
const sheets = new WeakMap()

/** The 256 colors of a map, as pixels. @param {keyof typeof MAPS} name */
export const colors = (name) => {
  let table = tables.get(name)
  if (!table) {
    const bytes = Uint8Array.from(atob(MAPS[name]), (letter) => letter.charCodeAt(0))
    table = Uint32Array.from(
      { length: 256 },
      (_, i) => (255 << 24) | (bytes[3 * i + 2] << 16) | (bytes[3 * i + 1] << 8) | bytes[3 * i],
    )
    tables.set(name, table)
  }
  return table
}

/** The color of a value between `low` and `high`, for a style.
 * @type {(map: keyof typeof MAPS, value: number, low: number, high: number) => string} */
export const color = (map, value, low, high) => {
  const pixel = colors(map)[Math.min(255, Math.max(0, Math.floor(((value - low) / (high - low)) * 256)))]
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`
}

/** Paint `values`, row by row, into `box`. What is no number stays paper.
 * @type {(ctx: CanvasRenderingContext2D, box: Box, values: ArrayLike<number>, columns: number,
 *   options: { map?: keyof typeof MAPS, low: number, high: number }) => void} */
export const heat = (ctx, box, values, columns, { map = "RdBu_r", low, high }) => {
  const rows = values.length / columns
  const sheet = sheets.get(ctx) ?? document.createElement("canvas")
  sheets.set(ctx, sheet)
  if (sheet.width !== columns || sheet.height !== rows) Object.assign(sheet, { width: columns, height: rows })
  const pen = /** @type {CanvasRenderingContext2D} */ (sheet.getContext("2d"))
  const image = pen.createImageData(columns, rows)
  const pixels = new Uint32Array(image.data.buffer)
  const table = colors(map)
  const scale = 256 / (high - low)
  for (let i = 0; i < pixels.length; i++) {
    const level = (values[i] - low) * scale
    if (level === level) pixels[i] = table[level < 0 ? 0 : level > 255 ? 255 : level | 0]
  }
  pen.putImageData(image, 0, 0)
  ctx.save()
  ctx.imageSmoothingEnabled = false
  ctx.drawImage(sheet, box.left, box.top, box.width, box.height)
  ctx.restore()
}
