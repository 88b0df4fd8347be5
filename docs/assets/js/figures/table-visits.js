// The rows of a table of positions: each text visits those from 0 on, and only visited rows get a gradient.

import { color } from "../kit/heat.js"
import { axes, circle, dot, fill, line, short, stroke, write } from "../kit/plot.js"
import { edge, run, tail, updates, visits } from "../math/visits.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const [COLUMNS, CELL] = [64, 11] // the grid of rows, and the pixels of a dot's cell, at most
const [EDGE, HEAD, CHART] = [40, 22, 150] // pixels
/** @type {[string, string][]} */
const KINDS = [
  ["uniform", "of any length"],
  ["short", "mostly short"],
  ["packed", "packed"],
]
const DASHES = [[], [5, 3.5], [1, 4]]

/** @param {import("../kit/stage.js").Stage} stage */
export default function tableVisits(stage) {
  /** @type {{ rows: number, means: number[], texts: number[], steps: number, enough: number, ask: number, row: number,
   *   seed: number }} */
  const { rows, means, texts, steps, enough, ask, row: first, seed } = stage.data
  const positions = Array.from({ length: rows }, (_, p) => p)
  const tails = (/** @type {string} */ which, /** @type {number} */ mean) =>
    positions.map((p) => tail(which, p, rows, mean))
  const [before, after] = [1, 2].map((times) => edge(tails("short", means[1]), enough, texts[1], times * ask))

  stage.predict(
    `Texts are mostly short. After ${ask} steps, ${before} rows expect ${enough} visits or more. And after ${2 * ask}?`,
    [`still ${before}`, `${after}`, `${2 * before}`],
    (answer) => {
      average.value = means[1]
      many.value = texts[1]
      time.value = Math.log10(2 * ask)
      kind.value = "short"
      return `${answer === `${after}` ? "Yes," : "It is"} ${after}. Each doubling adds about ${after - before} rows. Play the steps and watch.`
    },
  )
  const kind = stage.choice("texts", KINDS, "short")
  const whole = (/** @type {number} */ v) => short(Math.round(v))
  const ends = { min: means[0], max: means[2], value: means[1] }
  const average = stage.slider("average of the short", { ...ends, log: true, show: whole })
  const many = stage.slider("texts a step", { min: texts[0], max: texts[2], value: texts[1] })
  const decades = { min: 0, max: Math.log10(steps), value: Math.log10(ask), step: 0.001, rate: 0.25 }
  const time = stage.film("steps", { ...decades, show: (v) => whole(10 ** v) })

  const row = stage.slider("look at row", { min: 0, max: rows - 1, value: first, show: short })

  /** @type {{ key: string, shares: number[], visited: ArrayLike<number>, updated: ArrayLike<number>, reached: number,
   *   until: number }} */
  let now = { key: "", shares: [], visited: [], updated: [], reached: 0, until: 1 }
  stage.each(() => {
    average.input.toggleAttribute("disabled", kind.value !== "short")
    const until = Math.round(10 ** time.value)
    const key = [kind.value, Math.round(average.value), many.value, until].join()
    if (key === now.key) return
    const shares = tails(kind.value, Math.round(average.value))
    const { visits: visited, updates: updated } = run(shares, many.value, until, seed)
    now = { key, shares, visited, updated, reached: edge(shares, enough, many.value, until), until }
  })

  const most = steps * texts[2]
  const lines = Math.ceil(rows / COLUMNS)
  const cell = (/** @type {number} */ width) => Math.min(CELL, (width - EDGE - 4) / COLUMNS)
  stage.canvas({
    label: () =>
      `A grid of ${short(rows)} rows of a table, larger and brighter where more tokens visited. ${reading()}`,
    ratio: (width) => HEAD + lines * cell(width) + 34,
    draw: (ctx, width, height, look) => {
      const size = cell(width)
      const at = (/** @type {number} */ p) => [
        EDGE + ((p % COLUMNS) + 0.5) * size,
        HEAD + (Math.floor(p / COLUMNS) + 0.5) * size,
      ]
      write(ctx, look, "row", EDGE - 6, 10, { align: "right", color: look.soft })
      for (let p = 0; p < rows; p += 4 * COLUMNS)
        write(ctx, look, short(p), EDGE - 6, at(p)[1], { align: "right", size: 11, color: look.soft })
      positions.forEach((p) => {
        const [x, y] = at(p)
        dot(ctx, x, y, shade(look, now.visited[p], most), size * 0.47 * swell(now.visited[p], enough))
      })
      const [x, y] = at(row.value)
      circle(ctx, x, y, size / 2 + 3, look.spark, 2.5)
      const style = { align: /** @type {CanvasTextAlign} */ (x > width / 2 ? "right" : "left"), weight: 600, size: 13 }
      write(ctx, look, `row ${short(row.value)}`, x, 10, style)
      legend(ctx, look, width / 2, height - 14, [0, 1, enough, most], enough)
    },
    point: ({ x, y, width, down }) => {
      if (!down) return
      const within = (/** @type {number} */ value, /** @type {number} */ count) =>
        Math.min(count - 1, Math.max(0, Math.floor(value / cell(width))))
      row.value = Math.min(rows - 1, within(y - HEAD, lines) * COLUMNS + within(x - EDGE, COLUMNS))
    },
    arrows: { x: row },
  })
  stage.add(row.element) // above the chart whose line it moves

  stage.canvas({
    label: () => `Updates of each row so far, by formula and in the run. ${reading()}`,
    ratio: () => CHART,
    draw: (ctx, width, height, look) => {
      const box = { left: 52, top: 30, width: width - 64, height: height - 70 }
      const to = axes(ctx, look, box, {
        x: [0, rows],
        xticks: [0, 1, 2, 3, 4].map((quarter) => (quarter * rows) / 4),
        y: [0, Math.log10(steps) + 0.2],
        xlabel: "position p",
        ylabel: "updates",
        yticks: [0, 1, 2, 3],
        yformat: (v) => short(10 ** v),
      })
      let x = 4
      KINDS.forEach(([which, name], i) => {
        const chosen = which === kind.value
        const shares = chosen ? now.shares : tails(which, Math.round(average.value))
        const learned = shares.map((share) => Math.log10(updates(share, many.value, now.until)))
        ctx.setLineDash(DASHES[i])
        line(ctx, to, positions, learned, look.series[i], chosen ? 2.2 : 1.2)
        stroke(ctx, [x, 12], [x + 12, 12], look.series[i], 2.2)
        ctx.setLineDash([])
        write(ctx, look, name, x + 15, 12, { color: look.letters[i], weight: chosen ? 700 : 400 })
        x += ctx.measureText(name).width + 24
        if (!chosen) return
        for (let p = 15; p < rows; p += 28)
          if (now.updated[p]) dot(ctx, to.x(p), to.y(Math.log10(now.updated[p])), look.series[i], 2.6)
      })
      fill(ctx, look.spark, to.x(row.value) - 1, box.top, 2, box.height)
    },
  })

  const reading = () => {
    const p = row.value
    const share = now.shares[p]
    const expected = `${count(visits(share, many.value, now.until))} visits and ${count(updates(share, many.value, now.until))} updates`
    const end = `After ${short(now.until)} step${now.until === 1 ? "" : "s"}, ${short(now.reached)} of ${short(rows)} rows expect ${enough} visits or more.`
    return `${end} Row ${short(p)} expects ${expected}; in this run it had ${short(now.visited[p])} and ${short(now.updated[p])}.`
  }
  stage.say(reading)
}

/** @param {number} value */
const count = (value) => (value < 100 ? value.toFixed(1) : short(Math.round(value)))

/** @param {Look} look @param {number} visits @param {number} most */
const shade = (look, visits, most) => (visits ? color("viridis", Math.log(visits), 0, Math.log(most)) : look.rule)

/** The size of a dot, as a share of the largest. @param {number} visits @param {number} enough */
const swell = (visits, enough) => (visits >= enough ? 1 : visits ? 0.66 : 0.4)

/** What colors and sizes mean.
 * @type {(ctx: Ctx, look: Look, middle: number, y: number, counts: number[], enough: number) => void} */
const legend = (ctx, look, middle, y, counts, enough) => {
  const labels = counts.map((count, i) => short(count) + (i === counts.length - 1 ? " visits" : ""))
  const widths = labels.map((label) => ctx.measureText(label).width + 30)
  let x = middle - widths.reduce((a, b) => a + b, -18) / 2
  labels.forEach((word, i) => {
    dot(ctx, x, y, shade(look, counts[i], counts[counts.length - 1]), 5 * swell(counts[i], enough))
    write(ctx, look, word, x + 8, y)
    x += widths[i]
  })
}
