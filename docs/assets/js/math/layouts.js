// Two address books for the channels of a head. posenc.models.checkpoints in another language.

import { channels } from "./rope.js"

/** The pair to which a place belongs.
 * @param {number} place @param {number} dim @param {string} layout "half" or "interleaved" */
export const pairAt = (place, dim, layout) => (layout === "half" ? place % (dim / 2) : Math.floor(place / 2))

/** The place that turns with this one. @param {number} place @param {number} dim @param {string} layout */
export const partner = (place, dim, layout) => {
  const [first, second] = channels(pairAt(place, dim, layout), dim, layout)
  return place === first ? second : first
}

/** Where channel c of an interleaved head lies. @param {number} c @param {number} dim @param {string} layout */
export const placeOf = (c, dim, layout) => channels(Math.floor(c / 2), dim, layout)[c % 2]

/** The numbers of an interleaved head, in another order. @param {ArrayLike<number>} x @param {string} layout */
export const laidOut = (x, layout) => {
  const moved = new Float64Array(x.length)
  for (let c = 0; c < x.length; c++) moved[placeOf(c, x.length, layout)] = x[c]
  return moved
}

/** The channels of an interleaved head that turn at their own speed when rows lie in one layout and the code means
 * another.
 * @type {(dim: number, rows: string, code: string) => number[]} */
export const keepers = (dim, rows, code) =>
  Array.from({ length: dim }, (_, c) => c).filter(
    (c) => pairAt(placeOf(c, dim, rows), dim, code) === pairAt(c, dim, "interleaved"),
  )
