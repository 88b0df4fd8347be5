// Masks of a real model, and which tokens then become sinks: the mask on the left, weights by layer beside it.

import { handle } from "../kit/controls.js"
import { axes, dot, faint, fill, fixed, line, stroke, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look } from "../kit/plot.js" */
/** @typedef {{ name: string, positions: string, hidden: number[][], seen: number[][], alone: number[],
 *   weight: number[][], size: number[] }} Case what is hidden (rows from and to, columns from and to), in which rows a
 *   token is seen, and its weight by layer */
/** @typedef {{ length: number, tokens: number[], large: number, layer: number, asked: string, cases: Case[] }} Sinks */

const WIDE = 560
const COLORS = [0, 2, 1] // of the tokens
const THICK = 22 // pixels of a column that gets all weight
const THIN = 3 // pixels of a row that could not be seen otherwise

/** @param {import("../kit/stage.js").Stage} stage */
export default function sinkCases(stage) {
  /** @type {Sinks} */
  const { length, tokens, large, layer: start, asked, cases } = stage.data
  const names = cases.map(({ name }) => name)
  const last = tokens[tokens.length - 1]

  stage.predict(
    `Token ${last} may attend to itself alone, all others as before. What becomes of it?`,
    ["nothing: it is not the first", "a second sink", "the sink, in place of token 0"],
    (answer) => {
      chosen.value = asked
      const { weight } = now()
      const [first, , fenced] = weight[layer.value]
      return `${answer === "a second sink" ? "Yes" : "No"}: in layer ${layer.value} it gets ${fixed(fenced, 2)} of the weight, and token 0 keeps ${fixed(first, 2)}. Its position is as before.`
    },
  )
  const chosen = stage.select("case", names)
  const layer = stage.slider("layer", { min: 0, max: cases[0].weight.length - 1, value: start })
  const now = () => cases[names.indexOf(chosen.value)]
  const layers = cases[0].weight.map((_row, n) => n)
  const listed = (/** @type {number[]} */ some) => some.join(" and ")
  const sinks = () => tokens.filter((_token, i) => now().size[i] > large)

  /** @param {Ctx} ctx @param {Look} look @param {Box} box */
  const mask = (ctx, look, { left, top, width: side }) => {
    const at = (/** @type {number} */ token) => (token / length) * side
    ctx.beginPath()
    ctx.moveTo(left, top)
    ctx.lineTo(left + side, top + side)
    ctx.lineTo(left, top + side)
    ctx.closePath()
    ctx.fillStyle = look.rule
    ctx.fill()
    for (const [from, to, first, end] of now().hidden) {
      const [high, wide] = [Math.max(THIN, at(to) - at(from)), Math.max(THIN, at(end) - at(first))]
      fill(ctx, look.paper, left + at(first) - 1, top + at(from), wide + 1, high + 1)
    }
    tokens.forEach((token, i) => {
      const thick = THICK * now().weight[layer.value][i]
      if (thick < 0.5) return
      const x = left + at(token) + thick / 2
      const [from, to] = now().seen[i]
      faint(ctx, 0.85, () => stroke(ctx, [x, top + at(from)], [x, top + at(to)], look.series[COLORS[i]], thick))
    })
    for (const token of now().alone) {
      const color = look.letters[COLORS[tokens.indexOf(token)]]
      dot(ctx, left + at(token), top + at(token), color, 4)
      const style = { color, size: 11.5, halo: true }
      write(ctx, look, `token ${token} attends to itself alone`, left + at(token) + 9, top + at(token) - 3, style)
    }
    write(ctx, look, "queries ↓ and the keys that they may attend to →", left, top - 27, { size: 12, color: look.soft })
    write(ctx, look, `positions: ${now().positions}`, left, top + side + 14, { size: 12 })
  }

  const layout = (/** @type {number} */ width) => {
    const wide = width >= WIDE
    const side = wide ? Math.min(250, width * 0.36) : Math.min(240, width - 120)
    const square = { left: 4, top: 40, width: side, height: side }
    const chart = wide
      ? { left: side + 128, top: 52, width: width - side - 138, height: side - 30 }
      : { left: 40, top: side + 142, width: width - 50, height: 170 }
    return { square, chart, height: chart.top + chart.height + 44 }
  }

  stage.canvas({
    label: () => `The mask of “${chosen.value}”, and by layer the weight on tokens ${tokens.join(", ")}. ${reading()}`,
    ratio: (width) => layout(width).height,
    draw: (ctx, width, _height, look) => {
      const { square, chart } = layout(width)
      mask(ctx, look, square)
      const y = { y: [0, 0.8], yticks: [0, 0.2, 0.4, 0.6, 0.8], ylabel: "weight" }
      const to = axes(ctx, look, chart, { x: [0, layers.length - 1], xticks: [0, 10, 20, 29], xlabel: "layer", ...y })
      tokens.forEach((token, i) => {
        const color = look.letters[COLORS[i]]
        const words = `token ${token}: size ${sized(now().size[i])}`
        const place = width < WIDE ? [0, 0.5, 0][i] : i / 3 // in two rows on a phone
        const row = width < WIDE && i < 2 ? 30 : 14
        write(ctx, look, words, chart.left + place * chart.width, chart.top - row, { color, size: 12, weight: 700 })
        const heights = now().weight.map((row) => row[i])
        line(ctx, to, layers, heights, look.series[COLORS[i]], 2)
        dot(ctx, to.x(layer.value), to.y(heights[layer.value]), look.series[COLORS[i]])
      })
      stroke(ctx, [to.x(layer.value), chart.top], [to.x(layer.value), chart.top + chart.height], look.soft, 1)
    },
    point: ({ x, y, width, down }) => {
      const { chart } = layout(width)
      if (!down || x < chart.left - 8 || y < chart.top - 8) return
      layer.value = Math.round(((x - chart.left) / chart.width) * (layers.length - 1))
    },
    arrows: {
      x: layer,
      y: handle(
        () => names.indexOf(chosen.value),
        (n) => (chosen.value = names[n] ?? chosen.value),
      ),
    },
  })

  const reading = () => {
    const weights = tokens.map((token, i) => `${fixed(now().weight[layer.value][i], 2)} to token ${token}`)
    const sizes = now().size.map(sized)
    const verdict = `As large as a sink: ${listed(sinks())}. Attend to themselves alone: ${listed(now().alone)}.`
    return `${verdict} In layer ${layer.value} later queries give ${weights.join(", ")}. The sizes are ${sizes.join(", ")} times the median.`
  }
  stage.say(reading)
}

const sized = (/** @type {number} */ size) => fixed(size, size < 9.95 ? 1 : 0)
