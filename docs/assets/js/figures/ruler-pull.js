// A longer text with a table that was made longer: which old row each token carries, and where "four back" looks now.

import { color, heat } from "../kit/heat.js"
import { axes, write } from "../kit/plot.js"
import { extended, lookBack, sources } from "../math/resize.js"

const STREET = 168 // pixels
const SEEN = 0.08 // of the attention, from which on an arc is drawn
const TOLD = 0.2 // and from which on a key is named

/** @param {import("../kit/stage.js").Stage} stage */
export default function rulerPull(stage) {
  /** @type {{ rows: number, most: number, length: number, query: number, back: number, sharpness: number }} */
  const { rows, most, length: start, query, back, sharpness } = stage.data
  const pulled = Math.round((back * (start - 1)) / (rows - 1))
  stage.predict(
    `A head has learned to look ${back} back, with ${rows} rows. Stretch the table to ${start} rows. Where does it look?`,
    [`${back} back`, `${pulled} back`, `${back / 2} back`],
    (given) => {
      way.value = "stretch"
      length.value = start
      return `${given === `${pulled} back` ? "Yes," : "No,"} ${pulled} back: rows that lie ${back} apart stand at tokens that lie ${pulled} apart.`
    },
  )
  const way = stage.choice("new rows", ["clamp", "tile", "stretch", "extrapolate"])
  const length = stage.slider("tokens", { min: rows, max: most, value: start })
  const asking = stage.slider("query", { min: 0, max: start - 1, value: query })

  /** @type {{ key: string, weights: Float64Array, places: Float64Array, looks: Float64Array }} */
  let now = { key: "", weights: new Float64Array(), places: new Float64Array(), looks: new Float64Array() }
  stage.each(() => {
    const key = `${way.value} ${length.value}`
    if (key === now.key) return
    const weights = extended(way.value, rows, length.value)
    now = { key, weights, places: sources(weights, rows), looks: lookBack(weights, rows, back, sharpness) }
    if (asking.max !== length.value - 1) asking.max = length.value - 1
  })
  const seen = () => now.looks.subarray(asking.value * length.value, (asking.value + 1) * length.value)

  stage.canvas({
    label: () => `A street of ${length.value} tokens, each with the number of its old row. ${told()}`,
    ratio: () => STREET,
    draw: (ctx, width, height, look) => {
      const cell = (width - 16) / length.value
      const middle = (/** @type {number} */ p) => 8 + (p + 0.5) * cell
      const ground = height - 48
      now.places.forEach((place, j) => {
        ctx.fillStyle = color("viridis", place, 0, rows - 1)
        ctx.fillRect(8 + j * cell, ground, cell + 0.4, 20)
      })
      const step = Math.ceil(24 / cell)
      for (let j = 0; j < length.value; j += step)
        write(ctx, look, String(Math.round(now.places[j])), middle(j), ground + 30, { size: 11, align: "center" })
      write(ctx, look, "old row", 8, height - 7, { size: 11, color: look.soft })
      const m = asking.value
      const best = seen().indexOf(Math.max(...seen()))
      seen().forEach((weight, n) => {
        if (weight < SEEN) return
        const radius = (middle(m) - middle(n)) / 2
        ctx.beginPath()
        ctx.ellipse(middle(m) - radius, ground - 3, Math.max(radius, 2), Math.min(radius, ground - 30), 0, Math.PI, 0)
        ctx.strokeStyle = look.series[1]
        ctx.lineWidth = 1 + 4 * weight
        ctx.globalAlpha = 0.35 + 0.65 * weight
        ctx.stroke()
        ctx.globalAlpha = 1
        if (weight > TOLD && (n === best || Math.abs(n - best) * cell > 60))
          write(
            ctx,
            look,
            `${m - n} back`,
            middle(m) - radius,
            Math.max(12, ground - 14 - Math.min(radius, ground - 30)),
            { color: look.letters[1], weight: 600, align: "center", halo: true },
          )
      })
      ctx.strokeStyle = look.spark
      ctx.lineWidth = 2
      ctx.strokeRect(8 + m * cell - 1, ground - 2, cell + 2, 24)
      ctx.setLineDash([4, 3])
      ctx.strokeStyle = look.soft
      ctx.beginPath()
      ctx.moveTo(8 + rows * cell, ground - 12)
      ctx.lineTo(8 + rows * cell, ground + 22)
      ctx.stroke()
      ctx.setLineDash([])
    },
    point: ({ x, down }) => {
      if (down) asking.value = Math.floor(((x - 8) / (stage.element.clientWidth - 16)) * length.value)
    },
    arrows: { x: asking },
  })
  stage.canvas({
    label: () => `The matrix W, ${length.value} new rows by ${rows} old ones, and where each query looks.`,
    ratio: (width) => Math.min(300, width * 0.45) + 62,
    draw: (ctx, width, _height, look) => {
      const side = Math.min(300, width * 0.45 - 10)
      const tall = {
        left: 36 + Math.max(0, (width - 1.6 * side - 110) / 2),
        top: 24,
        width: Math.min(side * 0.6, width - side - 90),
        height: side,
      }
      const square = { left: tall.left + tall.width + 50, top: 24, width: side, height: side }
      const from = (/** @type {number} */ count) => /** @type {[number, number]} */ ([-0.5, count - 0.5])
      const down = /** @type {[number, number]} */ ([length.value - 0.5, -0.5])
      const ends = [0, rows - 1, length.value - 1]
      heat(ctx, tall, now.weights, rows, { low: -1, high: 1 })
      const w = axes(ctx, look, tall, {
        x: from(rows),
        y: down,
        xticks: [0, rows - 1],
        yticks: ends,
        xlabel: "old row",
        title: "W",
      })
      const hidden = now.looks.map((weight, i) => (i % length.value > i / length.value ? NaN : weight))
      heat(ctx, square, hidden, length.value, { map: "viridis", low: 0, high: 1 })
      const a = axes(ctx, look, square, {
        x: from(length.value),
        y: down,
        xticks: ends,
        yticks: ends,
        xlabel: "key",
        title: "Where each query looks",
      })
      ctx.strokeStyle = look.spark
      ctx.lineWidth = 1.5
      for (const { box, y } of [w, a]) {
        const top = y(asking.value - 0.5)
        ctx.strokeRect(box.left, top, box.width, y(asking.value + 0.5) - top)
      }
    },
  })
  const told = () => {
    const keys = Array.from(seen().keys()).filter((n) => seen()[n] >= TOLD)
    const named = keys.map((n) => `${seen()[n].toFixed(2)} to key ${n}, ${asking.value - n} back`)
    const place = Number(now.places[asking.value].toFixed(1))
    return `Token ${asking.value} of ${length.value} carries old row ${place}. It gives ${named.length ? named.join("; ") : "no key much of its attention"}.`
  }
  stage.say(told)
}
