// Large matrices, painted once and kept until their numbers change.

import { colors } from "../kit/heat.js"

/** @import { Box } from "../kit/plot.js" */
/** @import { Picture } from "./types.js" */

/** @param {Picture} picture */
const pixels = ({ values, rows, columns, band, lower, low, high, map }) => {
  const table = colors(map)
  const scale = 256 / (high - low)
  const image = new ImageData(columns, rows)
  const all = new Uint32Array(image.data.buffer)
  const pixel = (/** @type {number} */ value) => {
    const level = (value - low) * scale
    return table[level < 0 ? 0 : level > 255 ? 255 : level | 0]
  }
  if (band) {
    const line = new Uint32Array(values.length) // keys from far ahead to far behind
    for (let i = 0; i < line.length; i++) line[i] = pixel(values[line.length - 1 - i])
    for (let m = 0; m < rows; m++) {
      const from = rows - 1 - m
      all.set(line.subarray(from, from + (lower ? m + 1 : columns)), m * columns)
    }
  } else {
    for (let m = 0; m < rows; m++) {
      const end = m * columns + (lower ? m + 1 : columns)
      for (let i = m * columns; i < end; i++) all[i] = pixel(values[i])
    }
  }
  return image
}

/** A canvas of that size, emptied. @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
const emptied = (canvas, width, height) => {
  Object.assign(canvas, { width, height })
  return /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"))
}

/** @returns {(ctx: CanvasRenderingContext2D, box: Box, picture: Picture) => void} */
export const painter = () => {
  const [full, fitted] = [document.createElement("canvas"), document.createElement("canvas")]
  let sheet = full
  /** @type {Record<string, unknown>} */
  let last = {}
  return (ctx, box, picture) => {
    const { columns, rows } = picture
    const scale = window.devicePixelRatio || 1
    const width = Math.min(columns, Math.round(box.width * scale))
    const height = Math.min(rows, Math.round(box.height * scale))
    const wanted = { ...picture, width, height }
    if (Object.entries(wanted).some(([name, value]) => last[name] !== value)) {
      last = wanted
      emptied(full, columns, rows).putImageData(pixels(picture), 0, 0)
      sheet = width < columns || height < rows ? fitted : full
      // Cells smaller than a pixel are averaged, larger ones keep their edges
      if (sheet === fitted) emptied(fitted, width, height).drawImage(full, 0, 0, width, height)
    }
    ctx.save()
    ctx.imageSmoothingEnabled = false
    ctx.drawImage(sheet, box.left, box.top, box.width, box.height)
    ctx.restore()
  }
}
