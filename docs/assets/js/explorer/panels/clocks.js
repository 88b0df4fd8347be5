// The last panel: the two hands of each pair.

import { color } from "../../kit/heat.js"
import { circle, hand, short, write } from "../../kit/plot.js"
import { pairOf } from "../model.js"
import { wordAt } from "../defaults.js"
import { clip, ofKey, ofQuery } from "./marks.js"

/** @import { Panel, State } from "../types.js" */

/** What stands at a position. @param {State} s @param {number} p */
const placed = (s, p) => (s.words ? wordAt(s, p) : `at ${wordAt(s, p)}`)

/** How many dials stand beside each other, so that they are as large as can be.
 * @param {number} count @param {number} width @param {number} height */
const arranged = (count, width, height) => {
  let best = { cell: 0, columns: 1 }
  for (let columns = 1; columns <= count; columns++) {
    const cell = Math.min(width / columns, height / Math.ceil(count / columns), 64)
    if (cell > best.cell) best = { cell, columns }
  }
  return best
}

/** @returns {Panel} */
export const clockPanel = () => {
  let grid = { left: 0, top: 0, cell: 1, columns: 1 }
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s, pairs } = view
      const theta = /** @type {Float64Array} */ (view.theta)
      const [q, k] = [view.queryRow(s.query), view.keyRow(s.key)]
      const chosen = Math.max(0, pairOf(view, s.channel))
      const size = (/** @type {ArrayLike<number>} */ x) => Math.max(...pairs.map(([a, b]) => Math.hypot(x[a], x[b])))
      const [longQ, longK] = [size(q) || 1, size(k) || 1]
      /** @param {number} i @param {number} x @param {number} y @param {number} radius @param {boolean} [bold] */
      const clock = (i, x, y, radius, bold = false) => {
        const [a, b] = pairs[i]
        const adds = q[a] * k[a] + q[b] * k[b]
        ctx.beginPath()
        ctx.arc(x, y, radius, 0, 2 * Math.PI)
        const part = adds / (longQ * longK)
        ctx.globalAlpha = 0.5 * Math.abs(part)
        ctx.fillStyle = color("RdBu_r", 0.7 * Math.sign(part), -1, 1)
        ctx.fill()
        ctx.globalAlpha = 1
        circle(ctx, x, y, radius, bold ? look.ink : look.rule, bold ? 2 : 1)
        const thick = Math.min(3.2, 0.9 + radius / 16)
        const turned = (/** @type {ArrayLike<number>} */ v, /** @type {number} */ longest, /** @type {string} */ ink) =>
          hand(ctx, x, y, (radius * 0.94 * Math.hypot(v[a], v[b])) / longest, Math.atan2(v[b], v[a]), ink, thick)
        ctx.save()
        if (radius > 14) ctx.setLineDash([radius / 7, radius / 11])
        turned(k, longK, ofKey(look))
        ctx.restore()
        turned(q, longQ, ofQuery(look))
      }
      const wide = width > 400
      const radius = wide ? Math.min(66, height * 0.2) : 46
      const [x, y] = wide ? [radius + 12, radius + 14] : [radius + 6, radius + 6]
      clock(chosen, x, y, radius, true)
      const captions = [
        [`pair ${chosen}`, look.ink, 700],
        [theta[chosen] ? `λ = ${short((2 * Math.PI) / theta[chosen])}` : "frequency 0", look.ink, 400],
        [`— query ${placed(s, s.query)}`, ofQuery(look), 600],
        [`-- key ${placed(s, s.key)}`, ofKey(look), 600],
      ]
      captions.forEach(([text, ink, weight], i) => {
        const at = wide ? [x - radius, y + radius + 18 + 17 * i] : [x + radius + 14, y - 26 + 17 * i]
        write(ctx, look, String(text), at[0], at[1], { color: String(ink), weight: Number(weight), size: 12 })
      })
      const left = wide ? 2 * radius + 44 : 2
      const top = wide ? 6 : 2 * radius + 18
      const fit = arranged(pairs.length, width - left - 2, height - top - 6)
      grid = { left, top, ...fit }
      pairs.forEach((_, i) => {
        if (i !== chosen) clock(i, ...spot(grid, i), fit.cell * 0.44)
      })
      clock(chosen, ...spot(grid, chosen), fit.cell * 0.47, true)
    },
    pick: (x, y, { pairs }) => {
      const column = clip((x - grid.left) / grid.cell - 0.5, 0, grid.columns - 1)
      const i = clip((y - grid.top) / grid.cell - 0.5, 0, Infinity) * grid.columns + column
      return x < grid.left || y < grid.top || !pairs[i] ? {} : { channel: pairs[i][0] }
    },
  }
}

/** @type {(grid: { left: number, top: number, cell: number, columns: number }, i: number) => [number, number]} */
const spot = ({ left, top, cell, columns }, i) => [
  left + ((i % columns) + 0.5) * cell,
  top + (Math.floor(i / columns) + 0.5) * cell,
]
