// A longer text with a table that was made longer: which old row each token has, and where "four back" attends now.

import { color, heat } from "../kit/heat.js"
import { axes, dashed, fill, frame, stroke, write } from "../kit/plot.js"
import { extended, lookBack, sources } from "../math/resize.js"

const [STRIP, EDGE] = [176, 8] // pixels
const DRAWN = 0.08 // of the attention, from which on an arc is drawn
const NAMED = 0.2 // and from which on a key is named

/** @param {import("../kit/stage.js").Stage} stage */
export default function resizedRows(stage) {
  /** @type {{ rows: number, most: number, length: number, query: number, back: number, sharpness: number }} */
  const { rows, most, length: start, query, back, sharpness } = stage.data
  const apart = (back * (start - 1)) / (rows - 1)
  const rescaled = Math.round(apart)
  stage.predict(
    `A head has learned to attend ${back} back, with ${rows} rows. Interpolate the table to ${start} rows. Where does it attend?`,
    [`${back} back`, `${rescaled} back`, `${back / 2} back`],
    (answer) => {
      way.value = "interpolate"
      length.value = start
      return `${answer === `${rescaled} back` ? "Yes," : "No,"} ${rescaled} back: rows that are ${back} apart belong to tokens that are ${apart.toFixed(1)} apart.`
    },
  )
  const way = stage.choice("new rows", ["clamp", "tile", "interpolate", "extrapolate"])
  const length = stage.slider("tokens", { min: rows, max: most, value: start })
  const asking = stage.slider("query", { min: 0, max: start - 1, value: query })

  /** @type {{ key: string, weights: Float64Array, sourced: Float64Array, looks: Float64Array }} */
  let now = { key: "", weights: new Float64Array(), sourced: new Float64Array(), looks: new Float64Array() }
  stage.each(() => {
    const key = `${way.value} ${length.value}`
    if (key === now.key) return
    const weights = extended(way.value, rows, length.value)
    now = { key, weights, sourced: sources(weights, rows), looks: lookBack(weights, rows, back, sharpness) }
    if (asking.max !== length.value - 1) asking.max = length.value - 1
  })
  const attention = () => now.looks.subarray(asking.value * length.value, (asking.value + 1) * length.value)
  /** The keys that get so much attention or more, most first. @param {number} least */
  const strongest = (least) =>
    Array.from(attention().keys())
      .filter((n) => attention()[n] >= least)
      .sort((a, b) => attention()[b] - attention()[a])
  const away = (/** @type {number} */ n) => (n === asking.value ? "itself" : `${asking.value - n} back`)

  stage.canvas({
    label: () => `A strip of ${length.value} tokens, each with the number of its old row. ${reading()}`,
    ratio: () => STRIP,
    draw: (ctx, width, height, look) => {
      const cell = (width - 2 * EDGE) / length.value
      const middle = (/** @type {number} */ p) => EDGE + (p + 0.5) * cell
      const ground = height - 56
      now.sourced.forEach((old, j) => {
        fill(ctx, color("viridis", old, 0, rows - 1), EDGE + j * cell, ground, cell + 0.4, 20)
      })
      const step = Math.ceil(24 / cell)
      for (let j = 0; j < length.value; j += step)
        write(ctx, look, String(Math.round(now.sourced[j])), middle(j), ground + 30, { size: 11, align: "center" })
      write(ctx, look, "old row", EDGE, height - 8, { size: 11, color: look.soft })
      const m = asking.value
      /** @type {number[][]} */
      const written = []
      strongest(DRAWN).forEach((n) => {
        const weight = attention()[n]
        const radius = (middle(m) - middle(n)) / 2
        ctx.beginPath()
        ctx.ellipse(middle(m) - radius, ground - 3, Math.max(radius, 2), Math.min(radius, ground - 30), 0, Math.PI, 0)
        ctx.strokeStyle = look.series[1]
        ctx.lineWidth = 1 + 4 * weight
        ctx.globalAlpha = 0.35 + 0.65 * weight
        ctx.stroke()
        ctx.globalAlpha = 1
        const x = Math.min(width - 24, Math.max(24, middle(m) - radius))
        const y = Math.max(12, ground - 14 - Math.min(radius, ground - 30))
        if (weight < NAMED || written.some(([u, v]) => Math.abs(u - x) < 56 && Math.abs(v - y) < 14)) return
        written.push([x, y])
        write(ctx, look, away(n), x, y, { color: look.letters[1], weight: 600, align: "center", halo: true })
      })
      frame(ctx, look.spark, 2, EDGE + m * cell - 1, ground - 2, cell + 2, 24)
      const end = EDGE + rows * cell
      dashed(ctx, [4, 3], () => stroke(ctx, [end, ground - 12], [end, ground + 22], look.soft, 2))
    },
    point: ({ x, width, down }) => {
      const share = (x - EDGE) / (width - 2 * EDGE)
      if (down) asking.value = Math.floor(share * length.value)
    },
    arrows: { x: asking },
  })
  stage.canvas({
    label: () => `The matrix W, ${length.value} new rows by ${rows} old ones, and the attention weights.`,
    ratio: (width) => Math.min(300, width * 0.45) + 62,
    draw: (ctx, width, _height, look) => {
      const side = Math.min(300, width * 0.45 - 10)
      const edge = 36 + Math.max(0, (width - 1.6 * side - 110) / 2)
      const tall = { left: edge, top: 24, width: Math.min(side * 0.6, width - side - 100), height: side }
      const square = { left: tall.left + tall.width + 50, top: 24, width: side, height: side }
      const from = (/** @type {number} */ count) => [-0.5, count - 0.5]
      const down = [length.value - 0.5, -0.5]
      const ends = [0, rows - 1, length.value - 1]
      heat(ctx, tall, now.weights, rows, { low: -1, high: 1 })
      const old = { x: from(rows), xticks: [0, rows - 1], xlabel: "old row" }
      const w = axes(ctx, look, tall, { ...old, y: down, yticks: ends, title: "Weights W" })
      const hidden = now.looks.map((weight, i) => (i % length.value > i / length.value ? NaN : weight))
      heat(ctx, square, hidden, length.value, { map: "viridis", low: 0, high: 1 })
      const keys = { x: from(length.value), xticks: ends, xlabel: "key" }
      const a = axes(ctx, look, square, { ...keys, y: down, yticks: ends, title: "Attention" })
      for (const { box, y } of [w, a]) {
        const top = y(asking.value - 0.5)
        const high = y(asking.value + 0.5) - top // of its row
        frame(ctx, look.spark, 1.5, box.left - 1.5, top - 1.5, box.width + 3, high + 3)
      }
    },
  })
  const reading = () => {
    const named = strongest(NAMED).map((n) => `${attention()[n].toFixed(2)} to key ${n}, ${away(n)}`)
    const old = Number(now.sourced[asking.value].toFixed(1))
    const row = old < rows ? `old row ${old}` : `what would be row ${old}`
    return `Token ${asking.value} of ${length.value} has ${row}. It gives ${named.length ? named.join("; ") : "no key much of its attention"}.`
  }
  stage.say(reading)
}
