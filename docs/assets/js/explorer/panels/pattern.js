// The first panel: what each position, each head or each row of a table holds.

import { axes, dot } from "../../kit/plot.js"
import { biased, kindOf } from "../kinds.js"
import { pairOf } from "../model.js"
import { painter } from "../raster.js"
import { firstOf, wordsOf } from "../defaults.js"
import {
  BAR,
  BOTTOM,
  clip,
  colorBar,
  DASH,
  LEFT,
  mapOf,
  mark,
  ofKey,
  ofQuery,
  roomFor,
  TOP,
  whole,
  wordsDown,
} from "./marks.js"
import { byDistance } from "./steps.js"

/** @import { Panel, Scales, State, View } from "../types.js" */

/** What rows and columns are. @param {State} s */
const names = (s) => {
  const kind = kindOf(s)
  if (biased(s) && !kind.rows) return ["head", "offset m − n"]
  return [kind.rows ?? "position p", kind.columns ?? "channel"]
}

/** The number of the first row. @param {View} view */
const startOf = ({ pattern, state: s }) =>
  pattern.start ?? (biased(s) || kindOf(s).rows ? (kindOf(s).grid ? pattern.from : 0) : firstOf(s))

/** @returns {Panel} */
export const patternPanel = () => {
  const paint = painter()
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { pattern, state: s } = view
      const { rows, columns, from, low, high } = pattern
      const worded = wordsOf(s).length === rows && !kindOf(s).rows && !biased(s)
      const left = worded ? roomFor(ctx, look, s).left : LEFT
      const box = { left, top: TOP, width: width - left - BAR, height: height - TOP - BOTTOM }
      const map = mapOf(pattern)
      paint(ctx, box, { values: pattern.values, rows, columns, band: false, lower: false, low, high, map })
      const start = startOf(view)
      const [ylabel, xlabel] = names(s)
      to = axes(ctx, look, box, {
        x: [from - 0.5, from + columns - 0.5],
        y: [start + rows - 0.5, start - 0.5],
        xlabel,
        ...(worded || rows === 1 ? { yticks: [] } : { ylabel, yformat: whole }),
        xformat: whole,
      })
      if (worded) wordsDown(ctx, look, to, s, "token")
      colorBar(ctx, look, box, low, high, map)
      const [right, bottom] = [box.left + box.width, box.top + box.height]
      const across = (/** @type {number} */ row, /** @type {string} */ ink, dash = /** @type {number[]} */ ([])) =>
        mark(ctx, look, [box.left, to.y(row), right, to.y(row)], ink, dash)
      const down = (/** @type {number} */ column, /** @type {string} */ ink, dash = /** @type {number[]} */ ([])) =>
        mark(ctx, look, [to.x(column), box.top, to.x(column), bottom], ink, dash)
      if (pattern.reads) {
        const [row, column] = pattern.reads(s.query, s.key)
        if (row !== null && rows > 1) across(start + row, ofKey(look), DASH)
        if (column !== null) down(from + column, ofKey(look), DASH)
        else down(s.channel, look.ink)
        if (row === null || column === null) return
        dot(ctx, to.x(from + column), to.y(start + row), look.paper, 5.5)
        return dot(ctx, to.x(from + column), to.y(start + row), look.ink, 3.6)
      }
      if (biased(s)) {
        down(s.query - s.key, ofKey(look), DASH)
        return across(s.head, ofQuery(look))
      }
      const pair = pairOf(view, s.channel)
      for (const channel of pair < 0 ? [s.channel] : view.pairs[pair])
        down(channel, look.ink, channel === s.channel ? [] : [2, 3])
      across(s.key + start, ofKey(look), DASH)
      across(s.query + start, ofQuery(look))
    },
    pick: (x, y, view) => {
      const { pattern, state: s } = view
      const row = clip(to.atY(y) - startOf(view), 0, pattern.rows - 1)
      const column = clip(to.atX(x) - pattern.from, 0, pattern.columns - 1)
      if (pattern.reads) {
        if (!kindOf(s).columns) return { channel: column }
        return kindOf(s).columns?.startsWith("offset")
          ? byDistance(column + pattern.from, s)
          : kindOf(s).columns === "position p"
            ? { key: column }
            : {}
      }
      if (!biased(s)) return { query: row, channel: column }
      return { head: row, ...byDistance(column + pattern.from, s) }
    },
  }
}
