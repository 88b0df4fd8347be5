// A table of positions as a theater: each text fills the seats from number 0 on, and only guests shape a cushion.

import { color } from "../kit/heat.js"
import { axes, circle, dot, fill, line, short, stroke, write } from "../kit/plot.js"
import { edge, run, tail, updates, visits } from "../math/visits.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const TIERS = 16
const PIT = 0.3 // the radius of the stage, that of the last tier being 1
const [HOUSE, CHART] = [284, 150] // pixels, at most
/** @type {[string, string][]} */
const KINDS = [
  ["uniform", "of any length"],
  ["short", "mostly short"],
  ["packed", "packed"],
]
const DASHES = [[], [5, 3.5], [1, 4]]

/** @param {import("../kit/stage.js").Stage} stage */
export default function tableTheater(stage) {
  /** @type {{ rows: number, means: number[], texts: number[], steps: number, enough: number, ask: number, seat: number,
   *   seed: number }} */
  const { rows, means, texts, steps, enough, ask, seat, seed } = stage.data
  const places = Array.from({ length: rows }, (_, p) => p)
  const tails = (/** @type {string} */ which, /** @type {number} */ mean) =>
    places.map((p) => tail(which, p, rows, mean))
  const [before, after] = [1, 2].map((times) => edge(tails("short", means[1]), enough, texts[1], times * ask))

  stage.predict(
    `Texts are mostly short. After ${ask} steps, ${before} rows expect ${enough} visits or more. And after ${2 * ask}?`,
    [`still ${before}`, `${after}`, `${2 * before}`],
    (answer) => {
      average.value = means[1]
      many.value = texts[1]
      time.value = Math.log10(2 * ask)
      kind.value = "short"
      return `${answer === `${after}` ? "Yes," : "It is"} ${after}. Each doubling moves the edge by about ${after - before} seats. Play the steps and watch.`
    },
  )
  const kind = stage.choice("texts", KINDS, "short")
  const whole = (/** @type {number} */ v) => short(Math.round(v))
  const ends = { min: means[0], max: means[2], value: means[1] }
  const average = stage.slider("average of the short", { ...ends, log: true, show: whole })
  const many = stage.slider("texts a step", { min: texts[0], max: texts[2], value: texts[1] })
  const decades = { min: 0, max: Math.log10(steps), value: Math.log10(ask), step: 0.001, rate: 0.25 }
  const time = stage.film("steps", { ...decades, show: (v) => whole(10 ** v) })

  const row = stage.slider("look at row", { min: 0, max: rows - 1, value: seat, show: short })

  /** @type {{ key: string, shares: number[], guests: ArrayLike<number>, lessons: ArrayLike<number>, worn: number,
   *   until: number }} */
  let now = { key: "", shares: [], guests: [], lessons: [], worn: 0, until: 1 }
  stage.each(() => {
    average.input.toggleAttribute("disabled", kind.value !== "short")
    const until = Math.round(10 ** time.value)
    const key = [kind.value, Math.round(average.value), many.value, until].join()
    if (key === now.key) return
    const shares = tails(kind.value, Math.round(average.value))
    const { visits: guests, updates: lessons } = run(shares, many.value, until, seed)
    now = { key, shares, guests, lessons, worn: edge(shares, enough, many.value, until), until }
  })

  const most = steps * texts[2]
  const spots = seating(rows)
  let house = { x: 0, y: 0, radius: 1 }
  const at = (/** @type {number} */ p) => [house.x - spots[p][0] * house.radius, house.y - spots[p][1] * house.radius]
  stage.canvas({
    label: () => `A theater of ${short(rows)} seats, larger and brighter where more guests sat. ${reading()}`,
    ratio: (width) => Math.min(width / 2 + 36, HOUSE),
    draw: (ctx, width, height, look) => {
      house = { x: width / 2, y: height - 36, radius: Math.min(width / 2, height - 36) - 9 } // leaves room for the ring
      const size = ((house.radius * (1 - PIT)) / TIERS) * 0.47
      places.forEach((p) => {
        const [x, y] = at(p)
        dot(ctx, x, y, shade(look, now.guests[p], most), size * swell(now.guests[p], enough))
      })
      const [x, y] = at(row.value)
      circle(ctx, x, y, size + 4, look.spark, 2.5)
      write(ctx, look, `row ${short(row.value)}`, house.x, house.y - 10, { align: "center", weight: 600, size: 13 })
      legend(ctx, look, house.x, height - 14, [0, 1, enough, most], enough)
    },
    point: ({ x, y, down }) => {
      if (!down) return
      const away = places.map((p) => Math.hypot(at(p)[0] - x, at(p)[1] - y))
      row.value = away.indexOf(Math.min(...away))
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
        line(ctx, to, places, learned, look.series[i], chosen ? 2.2 : 1.2)
        stroke(ctx, [x, 12], [x + 12, 12], look.series[i], 2.2)
        ctx.setLineDash([])
        write(ctx, look, name, x + 15, 12, { color: look.letters[i], weight: chosen ? 700 : 400 })
        x += ctx.measureText(name).width + 24
        if (!chosen) return
        for (let p = 15; p < rows; p += 28)
          if (now.lessons[p]) dot(ctx, to.x(p), to.y(Math.log10(now.lessons[p])), look.series[i], 2.6)
      })
      fill(ctx, look.spark, to.x(row.value) - 1, box.top, 2, box.height)
    },
  })

  const reading = () => {
    const p = row.value
    const share = now.shares[p]
    const expected = `${count(visits(share, many.value, now.until))} visits and ${count(updates(share, many.value, now.until))} updates`
    const end = `After ${short(now.until)} step${now.until === 1 ? "" : "s"}, ${short(now.worn)} of ${short(rows)} rows expect ${enough} visits or more.`
    return `${end} Row ${short(p)} expects ${expected}; in this run it had ${short(now.guests[p])} and ${short(now.lessons[p])}.`
  }
  stage.say(reading)
}

/** @param {number} value */
const count = (value) => (value < 100 ? value.toFixed(1) : short(Math.round(value)))

/** Where the seats are, seen from the stage, in half circles of radius up to 1, from the left.
 * @type {(seats: number) => [number, number][]} */
const seating = (seats) => {
  const radii = Array.from({ length: TIERS }, (_, i) => PIT + ((1 - PIT) * (i + 0.5)) / TIERS)
  const all = radii.reduce((a, b) => a + b, 0)
  let [filled, sum] = [0, 0]
  return radii.flatMap((radius) => {
    sum += radius
    const end = Math.round((seats * sum) / all)
    const here = end - filled
    filled = end
    return Array.from({ length: here }, (_, i) => {
      const angle = (Math.PI * (i + 0.5)) / here
      return /** @type {[number, number]} */ ([radius * Math.cos(angle), radius * Math.sin(angle)])
    })
  })
}

/** @param {Look} look @param {number} guests @param {number} most */
const shade = (look, guests, most) => (guests ? color("viridis", Math.log(guests), 0, Math.log(most)) : look.rule)

/** The size of a seat, as a share of the largest. @param {number} guests @param {number} enough */
const swell = (guests, enough) => (guests >= enough ? 1 : guests ? 0.66 : 0.4)

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
