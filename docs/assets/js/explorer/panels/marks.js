// What all panels draw with: room for words, lines that are seen on any color, color bars.

import { heat } from "../../kit/heat.js"
import { dashed, short, stroke, upright, write } from "../../kit/plot.js"
import { wordsOf } from "../defaults.js"

/** @import { Box, Ctx, Look, Scales, State } from "../types.js" */

export const [LEFT, BOTTOM, BAR, TOP] = [48, 38, 58, 8] // pixels around a picture
export const DASH = [5, 3]
const LONGEST = 84 // pixels of a word
const SLANT = Math.PI / 5

/** @param {number} value @param {number} low @param {number} high */
export const clip = (value, low, high) => Math.min(high, Math.max(low, Math.round(value)))

/** @param {number} value */
export const tick = (value) => short(value, Math.abs(value) < 1 ? 3 : 2)

/** @param {number} value of a tick of something counted */
export const whole = (value) => (Number.isInteger(value) ? tick(value) : "")

/** @param {Look} look */
export const ofQuery = (look) => look.letters[2]
/** @param {Look} look */
export const ofKey = (look) => look.letters[3]

/** A line that is seen on any color.
 * @type {(ctx: Ctx, look: Look, ends: [number, number, number, number], ink: string, dash?: number[]) => void} */
export const mark = (ctx, look, [x0, y0, x1, y1], ink, dash = []) => {
  ctx.save()
  ctx.lineCap = "butt"
  stroke(ctx, [x0, y0], [x1, y1], look.paper, 3.4)
  dashed(ctx, dash, () => stroke(ctx, [x0, y0], [x1, y1], ink, 1.6))
  ctx.restore()
}

/** @type {(ctx: Ctx, look: Look, box: Box, low: number, high: number, map: "RdBu_r" | "viridis") => void} */
export const colorBar = (ctx, look, box, low, high, map) => {
  const bar = { left: box.left + box.width + 12, top: box.top, width: 9, height: box.height }
  const levels = Float64Array.from({ length: 256 }, (_, i) => high - ((i + 0.5) / 256) * (high - low))
  heat(ctx, bar, levels, 1, { map, low, high })
  const y = (/** @type {number} */ v) => bar.top + ((high - v) / (high - low)) * bar.height
  for (const v of low < 0 && high > 0 ? [low, 0, high] : [low, high]) {
    const base = v === low ? "bottom" : v === high ? "top" : "middle"
    write(ctx, look, short(v, Math.abs(v) < 1 || Math.abs(v) >= 100 ? 3 : 2), bar.left + bar.width + 4, y(v), {
      size: 11,
      base,
    })
  }
}

/** @param {{ low: number, high: number }} range */
export const mapOf = ({ low, high }) => (low === -high ? "RdBu_r" : "viridis")

/** A word, cut where it is too long. @param {Ctx} ctx @param {string} word */
const fitting = (ctx, word) => {
  let text = word
  while (text.length > 1 && ctx.measureText(text).width > LONGEST) text = `${text.slice(0, text.length - 2)}…`
  return text
}

/** The room that words need beside a picture and below it.
 * @param {Ctx} ctx @param {Look} look @param {State} s @param {number} [cell] the width of a column of theirs */
export const roomFor = (ctx, look, s, cell = Infinity) => {
  const words = wordsOf(s)
  if (!words.length) return { left: LEFT, bottom: BOTTOM, slanted: false }
  ctx.save()
  ctx.font = look.font(12)
  const widest = Math.max(...words.map((word) => ctx.measureText(fitting(ctx, word)).width))
  ctx.restore()
  const slanted = widest + 6 > cell
  return { left: Math.max(30, widest + 26), bottom: slanted ? widest * Math.sin(SLANT) + 34 : BOTTOM, slanted }
}

/** Words down the left side. @type {(ctx: Ctx, look: Look, to: Scales, s: State, label: string) => void} */
export const wordsDown = (ctx, look, { box, y }, s, label) => {
  ctx.save()
  ctx.font = look.font(12)
  wordsOf(s).forEach((word, p) => {
    const style = p === s.query ? { weight: 700, color: ofQuery(look) } : {}
    write(ctx, look, fitting(ctx, word), box.left - 7, y(p), { align: "right", ...style })
  })
  ctx.restore()
  upright(ctx, look, label, 10, box.top + box.height / 2, { size: 11, color: look.soft })
}

/** Words along the bottom.
 * @type {(ctx: Ctx, look: Look, to: Scales, s: State, label: string, room: { bottom: number, slanted: boolean }) =>
 *   void} */
export const wordsAlong = (ctx, look, { box, x }, s, label, { bottom, slanted }) => {
  const foot = box.top + box.height
  ctx.save()
  ctx.font = look.font(12)
  wordsOf(s).forEach((word, p) => {
    const style = p === s.key ? { weight: 700, color: ofKey(look) } : {}
    ctx.save()
    ctx.translate(x(p), foot + (slanted ? 9 : 12))
    if (slanted) ctx.rotate(-SLANT)
    write(ctx, look, fitting(ctx, word), 0, 0, { align: slanted ? "right" : "center", ...style })
    ctx.restore()
  })
  write(ctx, look, label, box.left + box.width / 2, foot + bottom - 8, { align: "center", size: 11, color: look.soft })
  ctx.restore()
}
