// Eight channels move from one layout to the other with their pairs, and a code rotates what lies at its indices.

import { axes, faint, line, short, write } from "../kit/plot.js"
import { keepers, laidOut, pairAt, partner, placeOf } from "../math/layouts.js"
import { channels, scorer } from "../math/rope.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const ROW = 94 // where the channels lie, in pixels
const GLIDE = 1600 // milliseconds from one layout to the other
const LANE = 24 // how far they swerve on their way
const DIGITS = "₀₁₂₃"
/** @type {Array<[string, string]>} */
const NAMES = [
  ["interleaved", "interleaved"],
  ["half", "half-split"],
]

/** @type {(ctx: Ctx, from: [number, number], to: [number, number], lift: number, color: string) => void} */
const arch = (ctx, from, to, lift, color) => {
  ctx.beginPath()
  ctx.moveTo(...from)
  ctx.bezierCurveTo(from[0], from[1] + lift, to[0], to[1] + lift, ...to)
  ctx.strokeStyle = color
  ctx.stroke()
}

/** A channel, filled with the color of its pair.
 * @param {Ctx} ctx @param {Look} look @param {number} c @param {[number, number]} at @param {number} half
 * @param {number} ring how wide its mark is */
const box = (ctx, look, c, [x, y], half, ring) => {
  ctx.beginPath()
  ctx.roundRect(x - half, y - 15, 2 * half, 30, 5)
  ctx.fillStyle = look.paper
  ctx.fill()
  ctx.globalAlpha = 0.3
  ctx.fillStyle = look.series[Math.floor(c / 2)]
  ctx.fill()
  ctx.globalAlpha = 1
  ctx.lineWidth = ring || 1.4
  ctx.strokeStyle = ring ? look.ink : ctx.fillStyle
  ctx.stroke()
  write(ctx, look, String(c), x, y, { align: "center", size: 14, weight: 600 })
}

/** @param {import("../kit/stage.js").Stage} stage */
export default function layoutShuffle(stage) {
  /** @type {{ theta: number[], q: number[], k: number[], far: number }} */
  const { theta, q, k, far } = stage.data
  const dim = q.length
  const all = Array.from({ length: dim }, (_, c) => c)
  stage.predict(
    `The rows are interleaved, the code is for half. How many of the ${dim} channels keep their frequency?`,
    ["none", "two", "half of them", "all"],
    (answer) => {
      halt()
      ;[way.value, code.value] = [0, "half"]
      const unmoved = keepers(dim, "interleaved", "half")
      return `${answer === "two" ? "Yes" : "No"}: ${unmoved.length}, channels ${unmoved.join(" and ")}. Even they are rotated with a channel of another pair. Now permute the rows.`
    },
  )
  const layout = (/** @type {number} */ t) => (t === 0 ? "interleaved" : t === 1 ? "half-split" : "moving")
  const way = stage.slider("rows", { min: 0, max: 1, value: 0, step: 0.02, show: layout })
  let going = 0
  const glide = (/** @type {number} */ goal, last = performance.now()) => {
    const now = performance.now()
    const pace = matchMedia("(prefers-reduced-motion: reduce)").matches ? 1 : (now - last) / GLIDE
    way.value = goal > way.value ? Math.min(goal, way.value + pace) : Math.max(goal, way.value - pace)
    if (way.value !== goal && !stage.signal.aborted) going = requestAnimationFrame(() => glide(goal, now))
  }
  const halt = () => cancelAnimationFrame(going)
  stage.button("Permute the rows", () => (halt(), glide(way.value < 0.5 ? 1 : 0)))
  way.input.addEventListener("input", halt, { signal: stage.signal })
  const code = stage.choice("code", [...NAMES], "interleaved")
  const channel = stage.slider("channel", { min: 0, max: dim - 1, value: 3 })

  const rows = () => (way.value === 0 ? "interleaved" : way.value === 1 ? "half" : "")
  const ease = () => (1 - Math.cos(Math.PI * way.value)) / 2
  const place = (/** @type {number} */ c) => c + (placeOf(c, dim, "half") - c) * ease()
  const swerve = (/** @type {number} */ c) =>
    Math.sin(Math.PI * ease()) * LANE * (c % 2 ? 1 : -1) * Number(placeOf(c, dim, "half") !== c)
  const frequency = (/** @type {number} */ i) => `θ${DIGITS[i]} = ${short(theta[i])}`
  const wanted = scorer(q, k, theta, "interleaved")
  const got = () => scorer(laidOut(q, rows()), laidOut(k, rows()), theta, code.value)

  const reading = () => {
    const [c, mate] = [channel.value, partner(channel.value, dim, "interleaved")]
    const own = `Channel ${c} belongs to channel ${mate}, at ${frequency(pairAt(c, dim, "interleaved"))}.`
    if (!rows())
      return `${own} It is on its way from index ${c} to index ${placeOf(c, dim, "half")}. The code goes by the index: what it rotates together shows when the rows lie still.`
    const here = placeOf(c, dim, rows())
    const other = partner(here, dim, code.value)
    const unmoved = keepers(dim, rows(), code.value)
    const met = all.find((index) => placeOf(index, dim, rows()) === other)
    const verdict = `The code rotates its index ${here} with index ${other}, where channel ${met} lies, at ${frequency(pairAt(here, dim, code.value))}.`
    const [result, aim] = [got(), wanted].map((product) => product(1).toFixed(3).replace("-", "−"))
    const right = unmoved.length === dim ? ", as it should be" : ` and should be ${aim}`
    return `${own} ${verdict} ${unmoved.length} of ${dim} keep their frequency. At distance 1, q · k is ${result}${right}.`
  }

  /** @param {Ctx} ctx @param {Look} look @param {number} cell */
  const rotated = (ctx, look, cell) => {
    const x = (/** @type {number} */ slot) => (slot + 0.5) * cell
    for (const slot of all) {
      const c = all.find((index) => placeOf(index, dim, rows()) === slot) ?? 0
      const wrong = rows() && !keepers(dim, rows(), code.value).includes(c)
      const color = wrong ? look.letters[4] : look.soft
      write(ctx, look, wrong ? `${slot} ✕` : String(slot), x(slot), ROW + 52, { align: "center", color })
    }
    const arcs = [...theta.keys()].map((pair) => {
      const [first, second] = channels(pair, dim, code.value)
      return { pair, from: x(first), to: x(second), lift: second - first > 1 ? 44 + 13 * pair : 30 }
    })
    ctx.lineWidth = 2
    for (const { pair, from, to, lift } of arcs) arch(ctx, [from, ROW + 64], [to, ROW + 64], lift, look.series[pair])
    for (const { pair, from, to, lift } of arcs) {
      const style = { halo: true, weight: 700, size: 13, color: look.letters[pair] }
      write(ctx, look, `θ${DIGITS[pair]}`, (from + to) / 2, ROW + 64 + 0.75 * lift, { ...style, align: "center" })
    }
  }

  const paper = stage.canvas({
    label: () => `Rows ${layout(way.value)}, code ${code.value}. ${reading()}`,
    ratio: () => ROW + 150,
    draw: (ctx, width, height, look) => {
      const cell = width / dim
      const half = Math.min(20, cell * 0.38)
      const at = (/** @type {number} */ c) =>
        /** @type {[number, number]} */ ([(place(c) + 0.5) * cell, ROW + swerve(c)])
      write(ctx, look, "pairs: one color, one frequency", 2, 9, { color: look.soft })
      write(ctx, look, "what the code rotates together, by index", 2, height - 9, { color: look.soft })
      rotated(ctx, look, cell)
      for (const i of theta.keys()) {
        const [[a, top], [b, other]] = [at(2 * i), at(2 * i + 1)]
        ctx.lineWidth = 2.6
        arch(ctx, [a, top - 15], [b, other - 15], -14 - (26 * Math.abs(b - a)) / cell / 2, look.series[i])
      }
      const mate = partner(channel.value, dim, "interleaved")
      for (const c of all) box(ctx, look, c, at(c), half, c === channel.value ? 2.6 : c === mate ? 1.6 : 0)
    },
    point: ({ x, width, down }) => {
      const apart = all.map((c) => Math.abs((place(c) + 0.5) * (width / dim) - x))
      if (down) channel.value = apart.indexOf(Math.min(...apart))
    },
    arrows: { x: channel },
  })
  stage.canvas({
    label: () => {
      const products = [wanted, ...(rows() ? [got()] : [])].map((product) =>
        [0, far / 2, far].map((at) => short(product(at))).join(", "),
      )
      return `The dot product q · k at distances 0, ${far / 2} and ${far}. Intended: ${products[0]}. Computed: ${products[1] ?? "not while rows move"}.`
    },
    ratio: () => 150,
    draw: (ctx, width, height, look) => {
      const apart = Array.from({ length: 8 * far + 1 }, (_, i) => i / 8)
      const products = [wanted, ...(rows() ? [got()] : [])].map((product) => apart.map(product))
      const most = Math.max(...products.flat().map(Math.abs)) * 1.1
      const box = { left: 40, top: 24, width: width - 50, height: height - 62 }
      const top = Math.floor(most)
      const ticks = { xticks: [0, far / 2, far], yticks: [-top, 0, top] }
      const labels = { xlabel: "distance Δ", title: "q · k" }
      const to = axes(ctx, look, box, { x: [0, far], y: [-most, most], ...ticks, ...labels })
      const names = ["━ intended", "━ computed"]
      ;[5, 2].slice(0, products.length).forEach((thick, i) => {
        faint(ctx, i ? 1 : 0.45, () => line(ctx, to, apart, products[i], look.series[4 * i], thick))
        const color = look.letters[4 * i]
        write(ctx, look, names[i], box.left + box.width - 90 * (1 - i), 11, { align: "right", color, weight: 700 })
      })
    },
  })
  stage.say(reading)
}
