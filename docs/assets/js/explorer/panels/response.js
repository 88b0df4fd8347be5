// The third panel: the chosen row by distance, of one view or of two, near or far; of a picture, its patches.

import { heat } from "../../kit/heat.js"
import { axes, dashed, dot, frame, line, short, write } from "../../kit/plot.js"
import { kindOf } from "../kinds.js"
import { farDistances } from "../model.js"
import { wordsOf } from "../defaults.js"
import { BAR, BOTTOM, clip, colorBar, DASH, LEFT, mapOf, mark, ofKey, ofQuery, tick, TOP, whole } from "./marks.js"
import { byDistance } from "./steps.js"

/** @import { Box, Ctx, Look, Panel, Scales, View } from "../types.js" */
/** @typedef {{ xs: Float64Array, ys: Float64Array, ink: string, wide: number, dash?: number[] }} Curve */

/** Whether both views' numbers are of one kind. @param {View} view @param {View | null} other */
const alike = (view, other) => !other || view.scale === other.scale

/** What is drawn of one view. @type {(view: View, scale: number, ink: string, look: Look) => Curve[]} */
const near = (view, scale, ink, look) => {
  const { state: s, band, plain } = view
  const { length, query: m, causal } = s
  const from = causal ? 0 : 1 - length
  const all = Float64Array.from({ length: length - from }, (_, i) => from + i)
  const scaled = (/** @type {Float64Array} */ values) =>
    (causal ? values.subarray(length - 1) : values).map((v) => v * scale)
  const row = view.row(m).reverse().subarray(causal ? length - 1 - m : 0).map((v) => v * scale) // prettier-ignore
  const mine = Float64Array.from(row, (_, i) => (causal ? 0 : m - length + 1) + i)
  return [
    ...(plain ? [{ xs: all, ys: scaled(plain), ink: look.letters[5], wide: 1.1, dash: [4, 3] }] : []),
    ...(band ? [{ xs: all, ys: scaled(band), ink: look.series[5], wide: 1 }] : []),
    { xs: mine, ys: row, ink, wide: length > 256 && !band ? 1.1 : 1.9 },
  ]
}

/** @param {View} view @param {number} scale @param {string} ink @param {Look} look @returns {Curve[]} */
const distant = ({ curve, plainCurve, far }, scale, ink, look) => {
  const xs = farDistances(far)
  const of = (/** @type {(distance: number) => number} */ f) => xs.map((distance) => f(distance) * scale)
  return [
    ...(plainCurve ? [{ xs, ys: of(plainCurve), ink: look.letters[5], wide: 0.8, dash: [4, 3] }] : []),
    ...(curve ? [{ xs, ys: of(curve), ink, wide: 1.4 }] : []),
  ]
}

/** @param {Curve[]} curves */
const heights = (curves) => {
  let [low, high] = [0, 0]
  for (const { ys } of curves) for (const v of ys) if (v === v) [low, high] = [Math.min(low, v), Math.max(high, v)]
  const room = (high - low || 1) * 0.06
  return [low - room, high + room]
}

/** @param {Ctx} ctx @param {Scales} to @param {Curve} curve */
const trace = (ctx, to, { xs, ys, ink, wide, dash = [] }) => dashed(ctx, dash, () => line(ctx, to, xs, ys, ink, wide))

/** Which curve is whose. @param {Ctx} ctx @param {Look} look @param {Box} box @param {View[]} views */
const legend = (ctx, look, box, views) => {
  views.forEach(({ state: s }, i) => {
    const x = box.left + box.width - 8
    const style = { align: /** @type {"right"} */ ("right"), weight: 700, color: look.letters[i], halo: true }
    write(ctx, look, `${"AB"[i]} ${kindOf(s).name}`, x, box.top + 10 + 17 * i, style)
  })
}

/** The words at their distances, where they are few.
 * @type {(ctx: Ctx, look: Look, to: Scales, view: View, scale: number) => void} */
const spoken = (ctx, look, to, { state: s, at }, scale) => {
  const words = wordsOf(s)
  if (words.length > 12) return
  words.forEach((word, n) => {
    if (s.causal && n > s.query) return
    const [x, y] = [to.x(s.query - n), to.y(at(s.query, n) * scale)]
    dot(ctx, x, y, look.series[0], 3.4)
    const up = y > to.box.top + 24
    const style = n === s.key ? { color: ofKey(look), weight: 700 } : {}
    write(ctx, look, word, x, up ? y - 12 : y + 14, { align: "center", halo: true, ...style })
  })
}

/** The patches of a picture as the chosen one sees them.
 * @param {Ctx} ctx @param {Look} look @param {number} width @param {number} height @param {View} view */
const patches = (ctx, look, width, height, view) => {
  const { state: s, low, high } = view
  const size = Math.min(width - LEFT - BAR, height - TOP - BOTTOM)
  const box = { left: LEFT, top: TOP, width: size, height: size }
  const map = mapOf(view)
  const row = view.row(s.query)
  heat(ctx, box, s.causal ? row.map((v, n) => (n > s.query ? NaN : v)) : row, s.side, { map, low, high })
  const ends = [-0.5, s.side - 0.5]
  const labels = { xlabel: "column", ylabel: "row", xformat: whole, yformat: whole }
  const to = axes(ctx, look, box, { x: ends, y: [ends[1], ends[0]], ...labels })
  colorBar(ctx, look, box, low, high, map)
  const cell = size / s.side
  const frameCell = (/** @type {number} */ p, /** @type {string} */ ink) => {
    const [x, y] = [to.x(p % s.side) - cell / 2, to.y(Math.floor(p / s.side)) - cell / 2]
    frame(ctx, look.paper, 4.5, x, y, cell, cell)
    frame(ctx, ink, 2.2, x, y, cell, cell)
  }
  frameCell(s.query, ofQuery(look))
  frameCell(s.key, ofKey(look))
  return to
}

/** @returns {Panel} */
export const responsePanel = () => {
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view, other = null) => {
      const { state: s } = view
      if (kindOf(s).grid && !other) {
        to = patches(ctx, look, width, height, view)
        return
      }
      const views = other ? [view, other] : [view]
      const factor = (/** @type {View} */ side) => (alike(view, other) || side.state.softmax ? 1 : side.scale)
      const far = s.far && !!view.curve
      const drawn = views.map((side, i) => (far ? distant : near)(side, factor(side), look.series[i], look))
      const curves = drawn.flat()
      const box = { left: LEFT + 4, top: TOP + 4, width: width - LEFT - 20, height: height - TOP - BOTTOM - 4 }
      const ends = curves.flatMap(({ xs }) => [xs[0], xs[xs.length - 1]])
      to = axes(ctx, look, box, {
        x: far ? [1, view.far] : [Math.min(...ends), Math.max(...ends)],
        y: heights(curves),
        xlabel: s.words && !far ? "tokens back" : "offset m − n",
        ...(alike(view, other) || s.softmax ? {} : { ylabel: "logit" }),
        ...(far
          ? { logx: true, xticks: width > 380 ? [1, 10, 100, 1000, 10_000, 100_000] : [1, 100, 10_000] }
          : { xformat: whole }),
        yformat: tick,
      })
      mark(ctx, { ...look, paper: "transparent" }, [box.left, to.y(0), box.left + box.width, to.y(0)], look.rule)
      for (const curve of curves) trace(ctx, to, curve)
      if (other) legend(ctx, look, box, views)
      const distance = s.query - s.key
      if (far) {
        const ruled = ["dynamic_ntk", "by_parts", "yarn", "llama3"].includes(s.scaling) && s.encoding === "rope"
        if (ruled) trainedTo(ctx, look, to, s.original_length)
        if (distance < 1) return
      } else if (!other && s.words) spoken(ctx, look, to, view, factor(view))
      const x = to.x(distance)
      mark(ctx, look, [x, box.top, x, box.top + box.height], ofKey(look), DASH)
      const height_ = far && view.curve ? view.curve(distance) : view.at(s.query, s.key)
      dot(ctx, x, to.y(height_ * factor(view)), look.paper, 6)
      dot(ctx, x, to.y(height_ * factor(view)), look.ink, 4)
    },
    pick: (x, y, { state: s }) => {
      if (kindOf(s).grid && to.box.width === to.box.height) {
        const [row, column] = [clip(to.atY(y), 0, s.side - 1), clip(to.atX(x), 0, s.side - 1)]
        return { key: Math.min(row * s.side + column, s.causal ? s.query : s.length - 1) }
      }
      const low = s.causal ? 0 : 1 - s.length
      return byDistance(clip(to.atX(x), s.far ? 1 : low, s.length - 1), s)
    },
  }
}

/** Where the texts of training ended. @param {Ctx} ctx @param {Look} look @param {Scales} to @param {number} length */
const trainedTo = (ctx, look, to, length) => {
  const { box } = to
  const x = to.x(length)
  mark(ctx, look, [x, box.top, x, box.top + box.height], look.soft, [1, 3])
  const left = x > box.left + box.width / 2
  const style = { size: 11, color: look.soft, halo: true }
  const [at, align] = /** @type {[number, CanvasTextAlign]} */ (left ? [x - 6, "right"] : [x + 6, "left"])
  write(ctx, look, `trained on ${short(length)}`, at, box.top + box.height - 9, { ...style, align })
}
