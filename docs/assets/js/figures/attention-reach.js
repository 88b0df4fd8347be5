// At which distances a real model attends: weights by layer, with rotation and without, beside an even spread.

import { handle } from "../kit/controls.js"
import { axes, dashed, fill, fixed, percent, stroke, write } from "../kit/plot.js"

/** @import { Box, Ctx, Look, Scales } from "../kit/plot.js" */
/** @typedef {{ edges: number[], even: number[], evenFirst: number, layer: number, near: number,
 *   cases: Record<string, { weight: number[][], first: number[] }> }} Reach shares by layer and bin of distances */

const COLORS = [0, 1]
const NARROW = 520
const LOG = [0.01, 1000] // how many times an even spread the axis shows

/** @param {import("../kit/stage.js").Stage} stage */
export default function attentionReach(stage) {
  /** @type {Reach} */
  const { edges, even, evenFirst, layer: start, near, cases } = stage.data
  const [whole, bare] = Object.keys(cases)
  const layers = cases[whole].first.length
  const bins = even.map((_share, i) => ({ from: edges[i], to: edges[i + 1] - 1 }))

  stage.predict(
    "Take the rotation away and keep the mask. Where does the weight go that is not on the first token?",
    ["to near tokens", "evenly to all", "to the beginning of the text"],
    (answer) => {
      ;[shown.value, all.value] = [bare, true]
      const { shares, first } = now(bare)
      const of = bins.map((_bin, i) => shares[i] / (1 - first) / even[i])
      const right = `each distance gets ${fixed(Math.min(...of), 1)} to ${fixed(Math.max(...of), 1)} times what an even spread gives`
      return `${answer === "evenly to all" ? "Yes" : "No"}: evenly. Of what is left beside the first token, ${right}.`
    },
  )
  const shown = stage.choice("rotation", [whole, bare])
  const scale = stage.choice("height", ["attention weight", "times an even spread"])
  const all = stage.toggle("mean of all layers", true)
  stage.bar = null
  const layer = stage.film("layer", { min: 0, max: layers - 1, value: start, rate: 2 })
  layer.input.addEventListener("input", () => (all.value = false), { signal: stage.signal })
  layer.play.addEventListener("click", () => (all.value = false), { signal: stage.signal })

  const mean = (/** @type {number[]} */ numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length
  /** What a query gives to the first token, and to each bin of distances. @param {string} name */
  const now = (name) => {
    const { weight, first } = cases[name]
    const at = Math.floor(layer.value)
    if (!all.value) return { shares: weight[at], first: first[at] }
    return { shares: even.map((_share, i) => mean(weight.map((row) => row[i]))), first: mean(first) }
  }
  const nearest = (/** @type {number[]} */ shares) =>
    bins.reduce((sum, { to }, i) => sum + (to < near ? shares[i] : 0), 0)
  const named = (/** @type {{ from: number, to: number }} */ { from, to }) =>
    from === to ? String(from) : `${from}–${to}`
  const which = () => (all.value ? "On the mean of all layers" : `In layer ${Math.floor(layer.value)}`)

  const reading = () => {
    const { shares, first } = now(shown.value)
    const how = shown.value === whole ? "as trained" : "without rotation"
    const key = nearest(shares) / nearest(even)
    return `${which()}, ${how}, a query gives ${percent(first)} of its weight to the first token and ${percent(nearest(shares))} to the nearest ${near}; an even spread would give these ${percent(nearest(even), 1)}. That is ${fixed(key, key < 9.95 ? 1 : 0)} times as much.`
  }

  stage.canvas({
    label: () =>
      `Bars of attention by distance, from the token itself to ${edges[edges.length - 2]} and more. ${reading()}`,
    ratio: (width) => (width < NARROW ? 320 : 300),
    draw: (ctx, width, height, look) => {
      const { shares, first } = now(shown.value)
      const times = scale.value !== "attention weight"
      const box = { left: 46, top: 30, width: width - 54, height: height - 92 }
      const slot = box.width / (bins.length + 1)
      const heights = [first, ...shares].map((share, i) => (times ? share / [evenFirst, ...even][i] : share))
      const log = (/** @type {number} */ value) => Math.log10(Math.min(LOG[1], Math.max(LOG[0], value)))
      const y = times
        ? { y: LOG.map(log), yticks: [-2, -1, 0, 1, 2, 3], yformat: (/** @type {number} */ power) => `${10 ** power}` }
        : { y: [0, 0.7], yticks: [0, 0.2, 0.4, 0.6], yformat: percent }
      const title = times ? "weight, times that of an even spread" : "attention weight; dashed: an even spread"
      const to = axes(ctx, look, box, { x: [0, bins.length + 1], xticks: [], title, ...y })
      const zero = to.y(0)
      heights.forEach((value, i) => {
        const top = to.y(times ? log(value) : value)
        const color = i ? look.series[COLORS[shown.value === whole ? 0 : 1]] : look.series[3]
        fill(ctx, color, box.left + (i + 0.14) * slot, Math.min(top, zero), 0.72 * slot, Math.abs(zero - top) + 0.8)
        label(ctx, look, i ? named(bins[i - 1]) : "first", box.left + (i + 0.5) * slot, box.top + box.height + 8, slot)
        if (times) return
        const level = to.y([evenFirst, ...even][i])
        const [left, right] = [box.left + (i + 0.06) * slot, box.left + (i + 0.94) * slot]
        dashed(ctx, [4, 3], () => stroke(ctx, [left, level], [right, level], look.ink, 1.4))
      })
      if (times) stroke(ctx, [box.left, zero], [box.left + box.width, zero], look.ink, 1)
      const words = "first token, then by distance in tokens"
      write(ctx, look, words, box.left + box.width / 2, height - 8, { align: "center" })
    },
    arrows: {
      x: handle(
        () => Math.floor(layer.value),
        (n) => ((layer.value = n), (all.value = false)),
      ),
    },
  })
  stage.say(reading)
}

/** The name of a bar, slanted where it has little room.
 * @type {(ctx: Ctx, look: Look, text: string, x: number, y: number, room: number) => void} */
const label = (ctx, look, text, x, y, room) => {
  ctx.font = look.font(11)
  if (ctx.measureText(text).width < room - 2) return write(ctx, look, text, x, y + 4, { size: 11, align: "center" })
  ctx.save()
  ctx.translate(x + 4, y)
  ctx.rotate(-Math.PI / 4)
  write(ctx, look, text, 0, 0, { size: 10.5, align: "right" })
  ctx.restore()
}
