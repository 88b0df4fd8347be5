// The four linked panels.

import { clockPanel } from "./panels/clocks.js"
import { pairsPanel } from "./panels/pairs.js"
import { patternPanel } from "./panels/pattern.js"
import { responsePanel } from "./panels/response.js"
import { rowPanel } from "./panels/rows.js"

/** @import { Panel, View } from "./types.js" */

export const RESPONSE = 2 // its place among the panels

/** @returns {Panel[]} */
export const panels = () => {
  const [clocks, rows] = [clockPanel(), rowPanel()]
  const last = (/** @type {View} */ view) => (view.pairs.length ? clocks : rows)
  return [
    patternPanel(),
    pairsPanel(),
    responsePanel(),
    {
      draw: (ctx, width, height, look, view) => last(view).draw(ctx, width, height, look, view),
      pick: (x, y, view) => last(view).pick(x, y, view),
    },
  ]
}
