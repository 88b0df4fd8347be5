// The last panel, where there are no hands: two rows of a table, or the weights of the chosen query.

import { axes, dashed, dot, fill, line } from "../../kit/plot.js"
import { firstOf, wordsOf } from "../defaults.js"
import { BOTTOM, clip, DASH, LEFT, mark, ofKey, ofQuery, roomFor, tick, TOP, whole, wordsAlong } from "./marks.js"
import { weighs } from "./steps.js"

/** @import { Panel, Scales } from "../types.js" */

/** Two rows of a table, or the weights of the chosen query. @returns {Panel} */
export const rowPanel = () => {
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s } = view
      const weights = weighs(view)
      const rows = weights ? [view.weights(s.query)] : [view.keyRow(s.key), view.queryRow(s.query)]
      const first = weights ? firstOf(s) : 0
      const worded = weights && wordsOf(s).length > 0
      const wide = width - LEFT - 20
      const room = roomFor(ctx, look, s, wide / s.length)
      const bottom = worded ? room.bottom : BOTTOM
      const box = { left: LEFT + 4, top: TOP + 4, width: wide, height: height - TOP - bottom - 4 }
      let [low, high] = [0, 0]
      for (const values of rows) for (const v of Array.from(values)) [low, high] = [Math.min(low, v), Math.max(high, v)]
      const count = rows[0].length
      to = axes(ctx, look, box, {
        x: [first - 0.5, first + count - 0.5],
        y: [low - (weights ? 0 : 0.06 * (high - low)), high + (high - low || 1) * 0.06],
        ...(worded ? { xticks: [] } : { xlabel: weights ? "key n" : "channel", xformat: whole }),
        yformat: tick,
      })
      if (worded) wordsAlong(ctx, look, to, s, "attention weight of each token", room)
      if (weights) {
        const step = box.width / count
        Array.from(rows[0]).forEach((v, n) => {
          const [x, y] = [to.x(n + first) - step * 0.45, to.y(v)]
          fill(ctx, look.series[0], x, y, Math.max(0.8, step * 0.9), to.y(0) - y)
        })
        const x = to.x(s.query + first)
        mark(ctx, look, [x, box.top, x, box.top + box.height], ofQuery(look))
      } else {
        const at = Float64Array.from({ length: count }, (_, i) => i)
        dashed(ctx, DASH, () => line(ctx, to, at, rows[0], ofKey(look), 1.4))
        line(ctx, to, at, rows[1], ofQuery(look), 1.6)
      }
      const chosen = weights ? s.key + first : s.channel
      const ink = weights ? ofKey(look) : look.ink
      mark(ctx, look, [to.x(chosen), box.top, to.x(chosen), box.top + box.height], ink, DASH)
      const y = to.y(rows[rows.length - 1][chosen - first])
      dot(ctx, to.x(chosen), y, look.paper, 6)
      dot(ctx, to.x(chosen), y, look.ink, 4)
    },
    pick: (x, _y, view) => {
      const { state: s, pattern } = view
      if (!weighs(view)) return { channel: clip(to.atX(x), 0, pattern.columns - 1) }
      return { key: clip(to.atX(x) - firstOf(s), 0, s.causal ? s.query : s.length - 1) }
    },
  }
}
