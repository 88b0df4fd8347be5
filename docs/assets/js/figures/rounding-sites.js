// Four maps, one for each number that may be rounded: how far off is each pair, at each position. And what that makes
// of a logit.

import { miss, placesIn, radianOff, rootMean } from "../math/sites.js"
import { frequencies } from "../math/waves.js"
import { color, heat } from "../kit/heat.js"
import { axes, dashed, dot, fill, line, short, stroke, write } from "../kit/plot.js"
import { handle } from "../kit/controls.js"

/** @import { Ctx, Look } from "../kit/plot.js" */
/** @import { Site } from "../math/sites.js" */

/** Of each pair in each column, row by row, and of a logit.
 * @typedef {{ pairs: Float64Array, logit: number[] }} Errors */

/** @type {Site[]} */
const SITES = ["position", "frequency", "angle", "cosine"]
const COLUMNS = 60
const COUNT = 3 // positions of a column: one alone may be exact by chance
const [LOW, HIGH] = [-3, Math.log10(2)] // two points of a circle are never farther apart than 2
const [ROOM, MAP, CHART] = [36, 112, 150]

/** @param {import("../kit/stage.js").Stage} stage */
export default function roundingSites(stage) {
  /** @type {{ dim: number, base: number, last: number, position: number, offsets: number[],
   *   kinds: Record<string, import("../math/rounding.js").Kind> }} */
  const { dim, base, last, position: asked, offsets, kinds } = stage.data
  const names = Object.keys(kinds)

  stage.predict(
    `Each row of a map is a pair. Of the tables in ${names[0]}, three are ruined at position ${short(asked)}. Now let the key be at offset ${offsets[0]}, and not at position 0. Which of the three gives a logit almost as if nothing were rounded?`,
    SITES.slice(0, 3),
    (answer) => {
      ;[type.value, key.value, bases.value, spot.value] = [names[0], String(offsets[0]), base, asked]
      const [position, frequency, angle] = SITES.map((site) => inWords(logit(site)))
      return `${answer === SITES[1] ? "Yes" : "No"}: the rounded frequency. It moves this logit by ${frequency} of its standard deviation, a rounded position by ${position} and a rounded angle by ${angle}.`
    },
  )
  const type = stage.choice("round to", names)
  const key = stage.choice("key at", [
    ["0", "position 0"],
    ...offsets.map((n) => /** @type {[string, string]} */ ([String(n), `offset ${short(n)}`])),
  ])
  const bases = stage.slider("base", { min: base / 100, max: base * 100, value: base, log: true, show: round })
  const spot = stage.slider("position", { min: 1, max: last, value: asked, log: true, show: round })

  const offset = () => Number(key.value) || NaN
  const column = () => Math.min(COLUMNS - 1, Math.floor((COLUMNS * Math.log(spot.value)) / Math.log(last)))
  const columns = Array.from({ length: COLUMNS }, (_, j) => placesIn(j, COLUMNS, last, COUNT))
  const middles = columns.map((_, j) => last ** ((j + 0.5) / COLUMNS))

  /** @param {Site} site @returns {Errors} */
  const errors = (site) => {
    const theta = frequencies(dim, bases.value)
    const all = columns.map((positions) => {
      const pairs = positions.map((m) => [m, Number.isNaN(offset()) ? 0 : m - offset()])
      return Array.from(theta, (t) => pairs.map(([m, n]) => (n < 0 ? NaN : miss(m, n, t, site, kinds[type.value]))))
    })
    return {
      pairs: Float64Array.from({ length: theta.length * COLUMNS }, (_, i) =>
        Math.log10(Math.max(1e-9, rootMean(all[i % COLUMNS][Math.floor(i / COLUMNS)]))),
      ),
      logit: all.map((rows) => rootMean(rows.flat())),
    }
  }
  let latestState = ""
  /** @type {Record<string, Errors>} */
  let latest = {}
  const now = () => {
    const state = [type.value, key.value, bases.value].join()
    if (latestState !== state) latest = Object.fromEntries(SITES.map((site) => [site, errors(site)]))
    latestState = state
    return latest
  }
  const logit = (/** @type {Site} */ site) => now()[site].logit[column()]

  const steps = handle(column, (j) => (spot.value = middles[Math.min(COLUMNS - 1, Math.max(0, j))]))
  /** @type {(x: number) => number} */
  let toPosition = () => asked
  stage.canvas({
    label: () => `How far off each pair is at each position, with one number rounded to ${type.value}: ${listed()}`,
    ratio: () => 2 * (MAP + ROOM) + CHART + 92,
    draw: (ctx, width, _height, look) => {
      const side = (width - 62) / 2
      const theta = frequencies(dim, bases.value)
      const here = middles[column()]
      const narrow = side < 200
      const decades = [1, 100, 10_000, 1_000_000]
      SITES.forEach((site, i) => {
        const [across, down] = [i % 2, Math.floor(i / 2)]
        const box = { left: 40 + across * (side + 14), top: 24 + down * (MAP + ROOM), width: side, height: MAP }
        heat(ctx, box, now()[site].pairs, COLUMNS, { map: "viridis", low: LOW, high: HIGH })
        const to = axes(ctx, look, box, {
          x: [1, last],
          y: [theta.length, 0],
          logx: true,
          xticks: decades,
          xformat: down ? tick : () => "",
          yticks: across ? [] : [0, theta.length],
          yformat: (v) => short(v && v - 1),
          ylabel: across ? "" : "pair",
        })
        const title = site === "cosine" && !narrow ? "cosine and sine" : site
        write(ctx, look, title, box.left, box.top - 10, { size: 12.5, weight: 700, color: look.letters[i] })
        const ends = Array.from(theta, (t) => radianOff(t, site, kinds[type.value], offset()))
        const rows = ends.map((_, pair) => pair + 0.5)
        dashed(ctx, [4, 3], () => line(ctx, to, ends, rows, "#ffffff", 1.4))
        stroke(ctx, [to.x(here), box.top], [to.x(here), box.top + MAP], look.spark, 1.2)
        if (i === 0) toPosition = to.atX
      })
      scale(ctx, look, 40, 2 * (MAP + ROOM) + 12, Math.min(side, 200))
      const box = { left: 40, top: 2 * (MAP + ROOM) + 70, width: width - 48, height: CHART - 26 }
      const to = axes(ctx, look, box, {
        x: [1, last],
        y: [LOW - 0.3, HIGH],
        logx: true,
        xticks: decades,
        xformat: tick,
        yticks: [-3, -2, -1, 0],
        yformat: (v) => String(10 ** v),
        title: "Error of a logit",
        xlabel: "position of the query",
      })
      SITES.forEach((site, i) => {
        const values = now()[site].logit.map((v) => Math.log10(Math.max(v, 1e-9)))
        line(ctx, to, middles, values, look.series[i], 2)
        if (values[column()] > LOW - 0.3) dot(ctx, to.x(here), to.y(values[column()]), look.series[i], 4)
      })
      stroke(ctx, [to.x(here), box.top], [to.x(here), box.top + box.height], look.spark, 1.2)
    },
    point: ({ x, width, down }) => {
      if (!down) return
      const side = (width - 62) / 2 // the left map's scale serves the right one too
      spot.value = Math.min(last, Math.max(1, toPosition(x > 47 + side ? x - side - 14 : x)))
    },
    arrows: { x: steps },
  })
  const listed = () => SITES.map((site) => `${site} ${inWords(logit(site))}`).join(", ")
  stage.say(() => {
    const near = `Near position ${round(spot.value)}`
    if (offset() > columns[column()][0]) return `${near} no key has offset ${short(offset())}.`
    const who = Number.isNaN(offset()) ? "at position 0" : `at offset ${short(offset())}`
    return `${near}, with a key ${who}, one number rounded to ${type.value} moves a logit by: ${listed()}. A logit has a standard deviation of 1.`
  })
}

const round = (/** @type {number} */ value) => short(Math.round(value))
const tick = (/** @type {number} */ value) => (value < 1000 ? short(value) : value < 1e6 ? `${value / 1000}k` : "1M")
const inWords = (/** @type {number} */ value) =>
  Number.isNaN(value) ? "no number" : value < 1e-9 ? "nothing" : value < 1e-3 ? "under 0.001" : value.toPrecision(2)

/** What the colors mean. @type {(ctx: Ctx, look: Look, left: number, top: number, width: number) => void} */
const scale = (ctx, look, left, top, width) => {
  for (let i = 0; i < width; i++) {
    fill(ctx, color("viridis", i, 0, width), left + i, top, 1.5, 8)
  }
  for (const power of width < 160 ? [-3, -1, 0] : [-3, -2, -1, 0]) {
    const x = left + (width * (power - LOW)) / (HIGH - LOW)
    write(ctx, look, String(10 ** power), x, top + 17, { size: 11, align: power === LOW ? "left" : "center" })
  }
  write(ctx, look, "off by", left - 6, top + 5, { size: 11, align: "right" })
}
