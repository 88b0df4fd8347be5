// The second panel: the score of every query and key.

import { axes, dot, frame, short, write } from "../../kit/plot.js"
import { painter } from "../raster.js"
import { firstOf, wordsOf } from "../defaults.js"
import {
  BAR,
  clip,
  colorBar,
  DASH,
  mapOf,
  mark,
  ofKey,
  ofQuery,
  roomFor,
  TOP,
  whole,
  wordsAlong,
  wordsDown,
} from "./marks.js"

/** @import { Ctx, Look, Panel, Scales, View } from "../types.js" */

const ROOMY = 40 // pixels of a cell that has room for its number

/** The number in each cell, in a color that is seen on it.
 * @type {(ctx: Ctx, look: Look, to: Scales, view: View, cell: number) => void} */
const numbers = (ctx, look, to, view, cell) => {
  const { state: s, low, high } = view
  for (let m = 0; m < s.length; m++) {
    for (let n = 0; n < (s.causal ? m + 1 : s.length); n++) {
      const value = view.at(m, n)
      const level = (value - low) / (high - low)
      const light = low === -high ? Math.abs(level - 0.5) < 0.3 : level > 0.55
      const style = { size: Math.min(13, cell * 0.28), color: light ? "#1f242d" : "#fff" }
      write(ctx, look, short(value, Math.abs(value) < 1 ? 3 : 2), to.x(n), to.y(m), { ...style, align: "center" })
    }
  }
}

/** @returns {Panel} */
export const pairsPanel = () => {
  const paint = painter()
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s, low, high } = view
      const { length } = s
      const first = firstOf(s)
      const worded = wordsOf(s).length > 0
      const free = roomFor(ctx, look, s)
      const room = roomFor(ctx, look, s, Math.min(width - free.left - BAR, height - TOP - free.bottom) / length)
      const side = Math.min(width - room.left - BAR, height - TOP - room.bottom)
      const box = { left: room.left, top: TOP, width: side, height: side }
      const map = mapOf(view)
      const values = /** @type {Float64Array} */ (view.band ?? view.values)
      const band = !!view.band
      const rows = band ? length : view.side
      paint(ctx, box, { values, rows, columns: rows, band, lower: s.causal, low, high, map })
      const ends = [first - 0.5, first + length - 0.5]
      const numbered = { xlabel: "key n", ylabel: "query m", xformat: whole, yformat: whole }
      to = axes(ctx, look, box, { x: ends, y: [ends[1], ends[0]], ...(worded ? { xticks: [], yticks: [] } : numbered) })
      if (worded) {
        wordsDown(ctx, look, to, s, "query")
        wordsAlong(ctx, look, to, s, "key", room)
      }
      colorBar(ctx, look, box, low, high, map)
      const [m, n] = [s.query + first, s.key + first]
      const [right, bottom] = [box.left + box.width, box.top + box.height]
      const cell = side / length
      if (worded) {
        if (cell > ROOMY) numbers(ctx, look, to, view, cell)
        frame(ctx, look.paper, 5, to.x(n) - cell / 2, to.y(m) - cell / 2, cell, cell)
        return frame(ctx, look.ink, 2.2, to.x(n) - cell / 2, to.y(m) - cell / 2, cell, cell)
      }
      if (view.band) {
        const back = Math.min(s.query, s.key)
        const ahead = length - 1 - Math.max(s.query, s.key)
        const diagonal = [to.x(n - back), to.y(m - back), to.x(n + ahead), to.y(m + ahead)]
        mark(ctx, look, /** @type {[number, number, number, number]} */ (diagonal), look.ink, [2, 3])
      }
      mark(ctx, look, [to.x(n), box.top, to.x(n), bottom], ofKey(look), DASH)
      mark(ctx, look, [box.left, to.y(m), right, to.y(m)], ofQuery(look))
      dot(ctx, to.x(n), to.y(m), look.paper, 5.5)
      dot(ctx, to.x(n), to.y(m), look.ink, 3.6)
    },
    pick: (x, y, { state: s }) => {
      const query = clip(to.atY(y) - firstOf(s), 0, s.length - 1)
      return { query, key: clip(to.atX(x) - firstOf(s), 0, s.causal ? query : s.length - 1) }
    },
  }
}
