// A table of coordinates, resized: each new patch tells from which place of the old grid its row was taken.

import { color } from "../kit/heat.js"
import { dot, fill, fixed, frame, stroke, write } from "../kit/plot.js"
import { mixture, origin, wanted } from "../math/grids.js"
import { handle } from "../kit/controls.js"

/** @import { Method, Size } from "../math/grids.js" */

const SHARE = 0.38 // of the width, for the image

/** @param {import("../kit/stage.js").Stage} stage */
export default function gridProbe(stage) {
  /** @type {{ ways: string[], methods: Record<string, Method>, old: number[], size: number[], start: [number, number],
   *   method: string, patch: Size }} */
  const { ways, methods, old, size, start, method, patch } = stage.data
  const bugs = ways.slice(1)
  stage.predict(
    `From ${start[0]} × ${start[0]} patches to ${start[1]} × ${start[1]}, with three bugs that no error reports. Which takes rows from furthest astray, on average?`,
    bugs,
    (answer) => {
      const from = /** @type {Size} */ ([start[0], start[0]])
      const to = /** @type {Size} */ ([start[1], start[1]])
      const means = bugs.map((bug) => mean(probed(bug, from, to, methods[method]).astray))
      const worst = bugs[means.indexOf(Math.max(...means))]
      ;[sides.value, tall.value, wide.value] = [start[0], start[1], start[1]]
      ;[way.value, how.value] = [worst, method]
      return `${answer === worst ? "Yes" : "No"}: ${bugs.map((bug, i) => `${bug} ${means[i].toFixed(2)}`).join(", ")} patches. Each has a pattern of its own: try all three.`
    },
  )
  const way = stage.choice("resized", ways)
  const how = stage.select("method", Object.keys(methods), method)
  const sides = stage.slider("old side", { min: old[0], max: old[1], value: start[0] })
  const tall = stage.slider("new height", { min: size[0], max: size[1], value: start[1] })
  const wide = stage.slider("new width", { min: size[0], max: size[1], value: start[1] })

  /** @type {{ key: string, from: Size, to: Size, mixed: import("../math/grids.js").Tap[][], places: [number, number][],
   *   astray: number[] }} */
  let now = { key: "", from: [1, 1], to: [1, 1], mixed: [], places: [], astray: [] }
  const spot = [...patch]
  const move = (/** @type {number} */ axis, /** @type {number} */ to) => {
    spot[axis] = Math.min(now.to[axis] - 1, Math.max(0, to))
    stage.changed()
  }
  const [row, column] = [0, 1].map((axis) => handle(() => spot[axis], (to) => move(axis, to))) // prettier-ignore
  stage.each(() => {
    const key = [way.value, how.value, sides.value, tall.value, wide.value].join()
    if (key === now.key) return
    const from = /** @type {Size} */ ([sides.value, sides.value])
    const to = /** @type {Size} */ ([tall.value, wide.value])
    how.input.toggleAttribute("disabled", way.value === "as one line") // which has a method of its own
    now = { key, from, to, ...probed(way.value, from, to, methods[how.value]) }
    for (const part of [row, column]) part.value += 0 // stays on the image
  })
  const chosen = () => row.value * now.to[1] + column.value
  const shade = (/** @type {number} */ k) =>
    color("viridis", Math.floor(k / now.to[1]), -0.4 * now.to[0], 1.05 * now.to[0])

  let image = { left: 0, top: 0, cell: 1 }
  const cornerOf = (/** @type {number} */ p) => [
    image.left + (p % now.to[1]) * image.cell,
    image.top + Math.floor(p / now.to[1]) * image.cell,
  ]
  stage.canvas({
    label: () =>
      `Left the new image, right the old grid with the positions from which its patches take their rows. ${reading()}`,
    ratio: (width) => width * (1 - SHARE) + 6,
    draw: (ctx, width, height, look) => {
      const { from, to, mixed, places } = now
      const k = chosen()
      const room = width * SHARE - 24
      image = { left: 4, top: 26, cell: Math.min(room / to[1], (height - 40) / to[0]) }
      write(ctx, look, `new, ${to[0]} × ${to[1]}`, image.left, 12, { weight: 700 })
      for (let p = 0; p < to[0] * to[1]; p++) {
        const [left, top] = cornerOf(p)
        fill(ctx, shade(p), left, top, image.cell - 1, image.cell - 1)
      }
      const [edge, top] = cornerOf(k)
      frame(ctx, look.spark, 2.5, edge - 1, top - 1, image.cell + 1, image.cell + 1)

      const left = width * SHARE + 6
      write(ctx, look, `old, ${from[0]} × ${from[1]}`, left, 12, { weight: 700 })
      const cell = Math.min(width - left - 8, height - 34) / (from[0] + 1)
      const x = (/** @type {number} */ c) => left + (c + 1.4) * cell
      const y = (/** @type {number} */ r) => 26 + (r + 1.35) * cell
      const weights = new Map(mixed[k].map(([p, w]) => [p, 0]))
      for (const [p, w] of mixed[k]) weights.set(p, (weights.get(p) ?? 0) + w)
      for (let p = -1; p < from[0] * from[1]; p++) {
        const [r, c] = p < 0 ? [-1, -1] : [Math.floor(p / from[1]), p % from[1]]
        const weight = weights.get(p) ?? 0
        const side = cell * 0.62
        ctx.fillStyle = weight ? color("RdBu_r", weight, -0.6, 0.6) : look.rule
        ctx.globalAlpha = weight ? 1 : 0.55
        if (p >= 0 || way.value === "class row inside") ctx.fillRect(x(c) - side / 2, y(r) - side / 2, side, side)
      }
      ctx.globalAlpha = 1
      ctx.strokeStyle = look.soft
      ctx.lineWidth = 0.5
      ctx.beginPath()
      places.forEach(([r, c], p) => (p % to[1] ? ctx.lineTo(x(c), y(r)) : ctx.moveTo(x(c), y(r))))
      ctx.stroke()
      places.forEach(([r, c], p) => dot(ctx, x(c), y(r), shade(p), Math.min(4, Math.max(1.6, cell * 0.09))))
      const [[r, c], [aim, at]] = [places[k], wanted(k, from, to)]
      stroke(ctx, [x(at), y(aim)], [x(c), y(r)], look.spark, 2)
      for (const up of [-5, 5]) stroke(ctx, [x(at) - 5, y(aim) - up], [x(at) + 5, y(aim) + up], look.spark, 2)
      dot(ctx, x(c), y(r), look.spark, 4.5)
    },
    point: ({ x, y, width, down }) => {
      if (!down || x > width * SHARE) return
      row.value = Math.floor((y - image.top) / image.cell)
      column.value = Math.floor((x - image.left) / image.cell)
    },
    arrows: { x: column, y: row },
  })
  const reading = () => {
    const k = chosen()
    return `Patch (${row.value}, ${column.value}) takes its row from ${point(now.places[k])} and should take it from ${point(wanted(k, now.from, now.to))}: ${now.astray[k].toFixed(2)} patches astray. The mean over the image is ${mean(now.astray).toFixed(2)}.`
  }
  stage.say(reading)
}

/** @param {number[]} values */
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length

/** @param {[number, number]} place */
const point = (place) => `(${place.map((v) => fixed(v, 2)).join(", ")})`

/** What each new patch mixes, the place that this stands for, and how far that is from its own.
 * @param {string} way @param {Size} from @param {Size} to @param {Method} method */
const probed = (way, from, to, method) => {
  const mixed = Array.from({ length: to[0] * to[1] }, (_, k) => mixture(way, k, from, to, method))
  const places = mixed.map((taps) => origin(taps, from[1]))
  const astray = places.map(([r, c], k) => Math.hypot(r - wanted(k, from, to)[0], c - wanted(k, from, to)[1]))
  return { mixed, places, astray }
}
