// The four linked panels: how each is drawn, and what the pointer finds in it.

import { color, heat } from "../kit/heat.js"
import { axes, dot, hand, line, short, write } from "../kit/plot.js"
import { pairOf } from "./model.js"
import { painter } from "./paint.js"
import { biased } from "./spec.js"

/** @import { Look, Box, Scales, View, Ctx, Focus, Panel } from "./types.js" */

const LEFT = 48
const BOTTOM = 38
const BAR = 58
const TOP = 8

/** @param {number} value @param {number} low @param {number} high */
const clip = (value, low, high) => Math.min(high, Math.max(low, Math.round(value)))

/** @param {number} value */
const tick = (value) => short(value, 2)

/** @param {number} value of a tick of something counted */
const whole = (value) => (Number.isInteger(value) ? tick(value) : "")

/** A line that is seen on any color. @param {Ctx} ctx @param {Look} look @param {[number, number, number, number]} ends @param {string} ink @param {number[]} [dash] */
const mark = (ctx, look, [x0, y0, x1, y1], ink, dash = []) => {
  ctx.save()
  ctx.lineCap = "butt"
  ctx.beginPath()
  ctx.moveTo(x0, y0)
  ctx.lineTo(x1, y1)
  ctx.strokeStyle = look.paper
  ctx.lineWidth = 3.4
  ctx.stroke()
  ctx.setLineDash(dash)
  ctx.strokeStyle = ink
  ctx.lineWidth = 1.6
  ctx.stroke()
  ctx.restore()
}

const DASH = [5, 3]
/** @param {Look} look */
const ofQuery = (look) => look.letters[2]
/** @param {Look} look */
const ofKey = (look) => look.letters[3]

/** @param {Ctx} ctx @param {Look} look @param {Box} box @param {number} low @param {number} high @param {"RdBu_r" | "viridis"} map */
const colorBar = (ctx, look, box, low, high, map) => {
  const bar = { left: box.left + box.width + 12, top: box.top, width: 9, height: box.height }
  const levels = Float64Array.from({ length: 256 }, (_, i) => high - ((i + 0.5) / 256) * (high - low))
  heat(ctx, bar, levels, 1, { map, low, high })
  const y = (/** @type {number} */ v) => bar.top + ((high - v) / (high - low)) * bar.height
  for (const v of low < 0 && high > 0 ? [low, 0, high] : [low, high]) {
    const base = v === low ? "bottom" : v === high ? "top" : "middle"
    write(ctx, look, short(v, Math.abs(v) < 100 ? 2 : 3), bar.left + bar.width + 4, y(v), { size: 11, base })
  }
}

/** @param {{ low: number, high: number }} range */
const mapOf = ({ low, high }) => (low === -high ? "RdBu_r" : "viridis")

/** @returns {Panel} */
const patternPanel = () => {
  const paint = painter()
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { pattern, state: s } = view
      const { rows, columns, from, low, high } = pattern
      const bias = biased(s)
      const box = { left: LEFT, top: TOP, width: width - LEFT - BAR, height: height - TOP - BOTTOM }
      const map = mapOf(pattern)
      paint(ctx, box, { values: pattern.values, rows, columns, band: false, lower: false, low, high, map })
      const start = bias ? 0 : s.first
      to = axes(ctx, look, box, {
        x: [from - 0.5, from + columns - 0.5],
        y: [start + rows - 0.5, start - 0.5],
        xlabel: bias ? "distance m − n" : "channel",
        ylabel: bias ? "head" : "position p",
        xformat: whole,
        yformat: whole,
      })
      colorBar(ctx, look, box, low, high, map)
      const [right, bottom] = [box.left + box.width, box.top + box.height]
      const across = (/** @type {number} */ row, /** @type {string} */ ink, dash = /** @type {number[]} */ ([])) =>
        mark(ctx, look, [box.left, to.y(row), right, to.y(row)], ink, dash)
      if (bias) {
        const x = to.x(s.query - s.key)
        mark(ctx, look, [x, box.top, x, bottom], ofKey(look), DASH)
        across(s.head, ofQuery(look))
        return
      }
      const pair = pairOf(view, s.channel)
      for (const channel of pair < 0 ? [s.channel] : view.pairs[pair])
        mark(ctx, look, [to.x(channel), box.top, to.x(channel), bottom], look.ink, channel === s.channel ? [] : [2, 3])
      across(s.key + s.first, ofKey(look), DASH)
      across(s.query + s.first, ofQuery(look))
    },
    pick: (x, y, view) => {
      const { pattern, state: s } = view
      const row = clip(to.atY(y) - (biased(s) ? 0 : s.first), 0, pattern.rows - 1)
      const column = clip(to.atX(x) - pattern.from, 0, pattern.columns - 1)
      if (!biased(s)) return { query: row, channel: column }
      return { head: row, ...byDistance(column + pattern.from, s) }
    },
  }
}

/** The key at a distance from the query, or both moved if there is none. @param {number} distance @param {import("./types.js").State} s @returns {Focus} */
const byDistance = (distance, s) => {
  const [low, high] = [Math.max(0, distance), Math.min(s.length - 1, s.length - 1 + distance)]
  const query = clip(s.query, low, high)
  return { query, key: query - distance }
}

/** @returns {Panel} */
const similarityPanel = () => {
  const paint = painter()
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s, low, high } = view
      const { length, first } = s
      const side = Math.min(width - LEFT - BAR, height - TOP - BOTTOM)
      const box = { left: LEFT, top: TOP, width: side, height: side }
      const map = mapOf(view)
      const values = /** @type {Float64Array} */ (view.band ?? view.values)
      paint(ctx, box, { values, rows: length, columns: length, band: !!view.band, lower: s.causal, low, high, map })
      const ends = /** @type {[number, number]} */ ([first - 0.5, first + length - 0.5])
      const names = { xlabel: "key n", ylabel: "query m", xformat: whole, yformat: whole }
      to = axes(ctx, look, box, { x: ends, y: [ends[1], ends[0]], ...names })
      colorBar(ctx, look, box, low, high, map)
      const [m, n] = [s.query + first, s.key + first]
      const [right, bottom] = [box.left + box.width, box.top + box.height]
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
      const query = clip(to.atY(y) - s.first, 0, s.length - 1)
      return { query, key: clip(to.atX(x) - s.first, 0, s.causal ? query : s.length - 1) }
    },
  }
}

/** @returns {Panel} */
const responsePanel = () => {
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s, band, plain } = view
      const { length, query: m, causal } = s
      const box = { left: LEFT + 4, top: TOP + 4, width: width - LEFT - 20, height: height - TOP - BOTTOM - 4 }
      const from = causal ? 0 : 1 - length
      const all = Float64Array.from({ length: length - from }, (_, i) => from + i)
      const seen = (/** @type {Float64Array} */ values) => (causal ? values.subarray(length - 1) : values)
      const row = view
        .row(m)
        .reverse()
        .subarray(causal ? length - 1 - m : 0)
      const mine = Float64Array.from(row, (_, i) => (causal ? 0 : m - length + 1) + i)
      const drawn = [band ? seen(band) : row, ...(plain ? [seen(plain)] : [])]
      let [low, high] = [0, 0]
      for (const values of drawn) for (const v of values) [low, high] = [Math.min(low, v), Math.max(high, v)]
      const room = (high - low || 1) * 0.06
      to = axes(ctx, look, box, {
        x: [from, length - 1],
        y: [low - room, high + room],
        xlabel: "distance m − n",
        xformat: whole,
        yformat: tick,
      })
      ctx.save()
      ctx.strokeStyle = look.rule
      ctx.beginPath()
      ctx.moveTo(box.left, to.y(0))
      ctx.lineTo(box.left + box.width, to.y(0))
      ctx.stroke()
      ctx.setLineDash([4, 3])
      if (plain) line(ctx, to, all, seen(plain), look.letters[5], 1.1)
      ctx.restore()
      if (band) line(ctx, to, all, seen(band), look.series[5], 1)
      line(ctx, to, mine, row, look.series[0], length > 256 && !band ? 1.1 : 1.9)
      const distance = m - s.key
      mark(ctx, look, [to.x(distance), box.top, to.x(distance), box.top + box.height], ofKey(look), DASH)
      dot(ctx, to.x(distance), to.y(view.at(m, s.key)), look.paper, 6)
      dot(ctx, to.x(distance), to.y(view.at(m, s.key)), look.ink, 4)
    },
    pick: (x, _y, { state: s }) => byDistance(clip(to.atX(x), s.causal ? 0 : 1 - s.length, s.length - 1), s),
  }
}

/** How many dials stand beside each other, so that they are as large as can be. @param {number} count @param {number} width @param {number} height */
const arranged = (count, width, height) => {
  let best = { cell: 0, columns: 1 }
  for (let columns = 1; columns <= count; columns++) {
    const cell = Math.min(width / columns, height / Math.ceil(count / columns), 64)
    if (cell > best.cell) best = { cell, columns }
  }
  return best
}

/** @returns {Panel} */
const clockPanel = () => {
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
        ctx.strokeStyle = bold ? look.ink : look.rule
        ctx.lineWidth = bold ? 2 : 1
        ctx.stroke()
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
      const told = [
        [`pair ${chosen}`, look.ink, 700],
        [theta[chosen] ? `λ = ${short((2 * Math.PI) / theta[chosen])}` : "never turns", look.ink, 400],
        [`— query at ${s.query + s.first}`, ofQuery(look), 600],
        [`-- key at ${s.key + s.first}`, ofKey(look), 600],
      ]
      told.forEach(([text, ink, weight], i) => {
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

/** @param {{ left: number, top: number, cell: number, columns: number }} grid @param {number} i @returns {[number, number]} */
const spot = ({ left, top, cell, columns }, i) => [
  left + ((i % columns) + 0.5) * cell,
  top + (Math.floor(i / columns) + 0.5) * cell,
]

/** Two rows of a table, or the weights of the chosen query. @returns {Panel} */
const rowPanel = () => {
  /** @type {Scales} */
  let to
  return {
    draw: (ctx, width, height, look, view) => {
      const { state: s } = view
      const weights = biased(s) || s.encoding === "none"
      const shown = weights ? [view.weights(s.query)] : [view.keyRow(s.key), view.queryRow(s.query)]
      const first = weights ? s.first : 0
      const box = { left: LEFT + 4, top: TOP + 4, width: width - LEFT - 20, height: height - TOP - BOTTOM - 4 }
      let [low, high] = [0, 0]
      for (const values of shown)
        for (const v of Array.from(values)) [low, high] = [Math.min(low, v), Math.max(high, v)]
      const count = shown[0].length
      to = axes(ctx, look, box, {
        x: [first - 0.5, first + count - 0.5],
        y: [low - (weights ? 0 : 0.06 * (high - low)), high + (high - low || 1) * 0.06],
        xlabel: weights ? "key n" : "channel",
        xformat: whole,
        yformat: tick,
      })
      if (weights) {
        const step = box.width / count
        ctx.fillStyle = look.series[0]
        Array.from(shown[0]).forEach((v, n) => {
          const y = to.y(v)
          ctx.fillRect(to.x(n + first) - step * 0.45, y, Math.max(0.8, step * 0.9), to.y(0) - y)
        })
        const x = to.x(s.query + first)
        mark(ctx, look, [x, box.top, x, box.top + box.height], ofQuery(look))
      } else {
        const at = Float64Array.from({ length: count }, (_, i) => i)
        ctx.save()
        ctx.setLineDash(DASH)
        line(ctx, to, at, shown[0], ofKey(look), 1.4)
        ctx.restore()
        line(ctx, to, at, shown[1], ofQuery(look), 1.6)
      }
      const chosen = weights ? s.key + first : s.channel
      const ink = weights ? ofKey(look) : look.ink
      mark(ctx, look, [to.x(chosen), box.top, to.x(chosen), box.top + box.height], ink, DASH)
      const y = to.y(shown[shown.length - 1][chosen - first])
      dot(ctx, to.x(chosen), y, look.paper, 6)
      dot(ctx, to.x(chosen), y, look.ink, 4)
    },
    pick: (x, _y, { state: s, pattern }) => {
      if (!biased(s) && s.encoding !== "none") return { channel: clip(to.atX(x), 0, pattern.columns - 1) }
      return { key: clip(to.atX(x) - s.first, 0, s.causal ? s.query : s.length - 1) }
    },
  }
}

/** @returns {Panel[]} */
export const panels = () => {
  const [clocks, rows] = [clockPanel(), rowPanel()]
  const fourth = (/** @type {View} */ view) => (view.pairs.length ? clocks : rows)
  return [
    patternPanel(),
    similarityPanel(),
    responsePanel(),
    {
      draw: (ctx, width, height, look, view) => fourth(view).draw(ctx, width, height, look, view),
      pick: (x, y, view) => fourth(view).pick(x, y, view),
    },
  ]
}

/** Where an arrow key leads. @param {View} view @param {number} panel @param {"x" | "y"} way @param {number} step @returns {Focus} */
export const stepped = (view, panel, way, step) => {
  const { state: s, pairs, pattern } = view
  const bias = biased(s)
  const last = s.length - 1
  const query = () => ({ query: clip(s.query + step, s.causal ? s.key : 0, last) })
  const key = () => ({ key: clip(s.key + step, 0, s.causal ? s.query : last) })
  const distance = () => byDistance(clip(s.query - s.key + step, s.causal ? 0 : -last, last), s)
  if (way === "y") return bias && panel === 0 ? { head: clip(s.head + step, 0, s.heads - 1) } : query()
  if (panel === 1) return key()
  if (panel === 2 || (bias && panel === 0)) return distance()
  if (panel === 3 && (bias || s.encoding === "none")) return key()
  if (panel === 3 && pairs.length) {
    const pair = clip(pairOf(view, s.channel) + step, 0, pairs.length - 1)
    return { channel: pairs[pair][0] }
  }
  return { channel: clip(s.channel + step, 0, pattern.columns - 1) }
}
