// Rows of a table in the planes of five bands of frequencies, over those of a random walk.

import { circle, dot, faint, fixed, stroke, write } from "../kit/plot.js"
import { placeAt, turnsUntil } from "../math/circles.js"

/** @import { Track } from "../math/circles.js" */
/** @typedef {{ name: string, tracks: Track[], two: number[] }} Table */

const ANSWERS = ["none", "one, or nearly two", "all five"]
const [HEAD, FOOT, LEFT] = [34, 30, 62] // room above, below and beside the planes, in pixels
const REACH = 1.75 // mean radii from the center to the edge of a plane's square
const NARROW = 520

/** @param {import("../kit/stage.js").Stage} stage */
export default function fiveDials(stage) {
  /** @type {{ rows: number, tables: Table[], bands: [number, number][] }} */
  const { rows, tables, bands } = stage.data
  const last = rows - 1

  stage.predict("In how many planes does a random walk run steadily round?", ANSWERS, (answer) => {
    row.value = last
    const counts = counted(tables[1]).slice(0, 2)
    return `${answer === ANSWERS[1] ? "Yes." : "No."} It completes ${fixed(counts[0], 1)} rotations in the first, and ${fixed(counts[1], 1)} in an irregular loop in the second. In the others it crosses the center.`
  })
  const row = stage.film("row", {
    min: 0,
    max: last,
    value: 60,
    rate: 24,
    show: (value) => String(Math.floor(value) + 1),
  })
  const trail = stage.toggle("all rows so far", true)

  const counted = (/** @type {Table} */ { tracks }) => tracks.map((track) => Math.abs(turnsUntil(track, row.value)))
  const left = (/** @type {number} */ width) => (width < NARROW ? 4 : LEFT)
  const cell = (/** @type {number} */ width) => (width - left(width)) / bands.length
  const line = (/** @type {number} */ width) => HEAD + cell(width) + FOOT

  stage.canvas({
    label: () =>
      `Two rows of ${bands.length} planes at row ${Math.floor(row.value) + 1}. ` +
      tables.map((table) => `${table.name}: ${counted(table).map((turns) => fixed(turns, 1))} rotations`).join("; "),
    ratio: (width) => 2 * line(width) + 4,
    draw: (ctx, width, _height, look) =>
      tables.forEach((table, t) => {
        const color = look.series[2 * t]
        const letters = look.letters[2 * t]
        const top = t * line(width)
        write(ctx, look, table.name, left(width) ? 4 : 0, top + 12, { weight: 700, color: letters, size: 12.5 })
        counted(table).forEach((turns, n) => {
          const size = cell(width)
          const [x, y, unit] = [left(width) + (n + 0.5) * size, top + HEAD + size / 2, size / 2 / REACH]
          const track = table.tracks[n]
          const at = (/** @type {number} */ r) => {
            const point = placeAt(track, r)
            return /** @type {[number, number]} */ ([x + unit * point[0], y - unit * point[1]])
          }
          ctx.save()
          ctx.beginPath()
          ctx.rect(x - size / 2 + 1, y - size / 2, size - 2, size)
          ctx.clip() // the walk's points leave the square at the ends of the table
          circle(ctx, x, y, unit, look.rule)
          faint(ctx, 0.45, () => {
            const from = trail.value ? 0 : Math.max(0, row.value - rows / Math.max(turns, 1) / 2)
            for (let r = Math.ceil(from); r <= row.value; r++) dot(ctx, ...at(r), color, 1.1)
          })
          stroke(ctx, [x, y], at(row.value), look.ink, 2)
          dot(ctx, ...at(row.value), look.ink, 3)
          ctx.restore()
          const middle = /** @type {const} */ ({ align: "center", size: 11 })
          if (!t) write(ctx, look, bands[n].join("–"), x, top + HEAD - 6, { ...middle, color: look.soft })
          write(ctx, look, fixed(turns, 1), x, top + HEAD + size + 10, { ...middle, size: 12.5, weight: 700 })
        })
        const foot = top + HEAD + cell(width) + 10
        if (width >= NARROW) write(ctx, look, "rotations", 4, foot, { size: 11.5, color: look.soft })
        if (width >= NARROW && !t) write(ctx, look, "cycles", 4, top + HEAD - 6, { size: 11.5, color: look.soft })
      }),
    point: ({ x, width, down }) => {
      if (down) row.value = Math.round(Math.min(1, Math.max(0, (x - left(width)) / (width - left(width)))) * last)
    },
    arrows: { x: row },
  })
  stage.say(() => {
    const [real, walk] = tables.map((table) => counted(table).map((turns) => fixed(turns, 1)))
    return `At row ${Math.floor(row.value) + 1} of ${rows}, MiniLM's points have completed ${real.join(", ")} rotations, the walk's ${walk.join(", ")}. In the band of highest frequency two components hold ${fixed(tables[0].two[4], 2)} of MiniLM's variance and ${fixed(tables[1].two[4], 2)} of the walk's.`
  })
}
