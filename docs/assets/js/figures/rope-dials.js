// The dot product depends on the phase difference of each pair, and none changes when both positions move on.

import { rope, scorer } from "../math/rope.js"
import { dial } from "../kit/dial.js"
import { axes, dot, fixed, hand, line, stroke, write } from "../kit/plot.js"
import { handle } from "../kit/controls.js"

/** @import { Ctx, Look } from "../kit/plot.js" */

const NARROW = 520
const LAYOUT = "interleaved" // pairs are neighbors, as on the page
const NAMES = ["query", "key"]
const PURPLE = 3

/** @param {import("../kit/stage.js").Stage} stage */
export default function ropeDials(stage) {
  /** @type {{ theta: number[], query: number[], key: number[], m: number, n: number, last: number, far: number }} */
  const { theta, query, key, m, n, last, far } = stage.data
  const contents = [query, key]
  const product = (/** @type {number} */ gap) => scorer(query, key, theta, LAYOUT)(gap)
  const pair = (/** @type {number[]} */ x, /** @type {number} */ i) => x.slice(2 * i, 2 * i + 2)
  const part = (/** @type {number} */ i) => scorer(pair(query, i), pair(key, i), [theta[i]], LAYOUT)(gap())

  stage.predict(
    `Query and key move on together, by up to ${far} positions. Each pair rotates. What does q · k do?`,
    ["it rises and falls", "it fades", "it stays"],
    (answer) => {
      both.value = 0
      both.run()
      const verdict = answer.endsWith("stays") ? "Yes." : "Look:"
      return `${verdict} Both vectors of a pair rotate by the same angle. At Δ = ${minus(gap())}, q · k = ${two(product(gap()))} at every position.`
    },
  )
  const positions = [
    stage.slider("query at m", { min: 0, max: last, value: m }),
    stage.slider("key at n", { min: 0, max: last, value: n }),
  ]
  stage.bar = null // the next controls stand in a row of their own
  const both = stage.film("shift both", { min: 0, max: far, value: 0, rate: 3 })
  const gap = () => positions[0].value - positions[1].value
  const at = () => positions.map((position) => position.value + both.value)

  /** The vectors of query and key in a pair, at their positions. @param {number} i */
  const vectors = (i) => contents.map((x, who) => rope(pair(x, i), at()[who], [theta[i]], LAYOUT))
  /** Move the tip of the chosen vector, and with it the content of the query or the key.
   * @param {(tip: Float64Array) => number[]} change */
  const move = (change) => {
    const { who, i } = chosenVector()
    const [x, y] = change(vectors(i)[who])
    const size = Math.min(1, 1 / Math.hypot(x, y))
    contents[who].splice(2 * i, 2, ...rope([x * size, y * size], -at()[who], [theta[i]], LAYOUT))
    stage.changed()
  }

  const dials = stage.canvas({
    label: () =>
      `${theta.map((_, i) => `Pair ${i}: ${factors(vectors(i))} = ${two(part(i))}`).join("; ")}. Arrow keys rotate and lengthen the vector that is chosen below`,
    ratio: (width) => spot(width, theta.length - 1).y + spot(width, 0).radius + 46,
    draw: (ctx, width, _height, look) => {
      ruler(ctx, look, width, at().map(Math.floor), last + far)
      const { who, i: open } = chosenVector()
      theta.forEach((frequency, i) =>
        drawPair(ctx, look, spot(width, i), vectors(i), frequency, part(i), i === open ? who : -1),
      )
    },
    point: ({ x, y, width, down, start }) => {
      const spots = theta.map((_, i) => spot(width, i))
      if (start) {
        const i = spots.findIndex((at) => Math.hypot(x - at.x, y - at.y) < at.radius + 12)
        dragging = i >= 0
        if (!dragging) return
        const [toQuery, toKey] = vectors(i).map(([a, b]) =>
          Math.hypot(spots[i].x + spots[i].radius * a - x, spots[i].y - spots[i].radius * b - y),
        )
        chosen.value = String(2 * i + Number(toKey < toQuery))
      }
      const { x: centerX, y: centerY, radius } = spots[chosenVector().i]
      if (down && dragging) move(() => [(x - centerX) / radius, (centerY - y) / radius])
    },
    arrows: {
      x: handle(still, (step) => move((tip) => [...rope(tip, -step, [Math.PI / 36], LAYOUT)])),
      y: handle(still, (step) => move((tip) => [...tip.map((v) => v * 1.06 ** step)])),
    },
  })
  dials.element.style.cursor = "grab"
  let dragging = false
  /** Two dials a row on a phone. @param {number} width @param {number} i */
  const spot = (width, i) => {
    const columns = width < NARROW ? theta.length / 2 : theta.length
    const radius = Math.min((0.43 * width) / columns, 78)
    const row = Math.floor(i / columns)
    return { x: (((i % columns) + 0.5) * width) / columns, y: 60 + radius + row * (2 * radius + 60), radius }
  }

  const options = theta.flatMap((_, i) => NAMES.map((name, who) => [String(2 * i + who), `${name}, pair ${i}`]))
  const chosen = stage.select(
    "Drag a vector, or rotate it with the arrow keys:",
    /** @type {[string, string][]} */ (options),
  )
  const chosenVector = () => ({ who: Number(chosen.value) % 2, i: Math.floor(Number(chosen.value) / 2) })

  stage.canvas({
    label: () => `The dot product q · k against the offset: ${two(product(gap()))} at ${minus(gap())}`,
    ratio: () => 180,
    draw: (ctx, width, height, look) => {
      const box = { left: 44, top: 26, width: width - 60, height: height - 70 }
      const xs = Array.from({ length: 8 * last + 1 }, (_, j) => j / 4 - last)
      const ys = xs.map(product)
      const high = Math.max(...ys.map(Math.abs), 1) * 1.15
      const to = axes(ctx, look, box, {
        x: [-last, last],
        y: [-high, high],
        xlabel: "Δ = m − n",
        ylabel: "q · k",
        title: "The offset alone decides: one curve for all positions",
      })
      line(ctx, to, [-last, last], [0, 0], look.rule, 1)
      line(ctx, to, xs, ys, look.series[5])
      const [x, y] = [to.x(gap()), to.y(product(gap()))]
      line(ctx, to, [gap(), gap()], [-high, product(gap())], look.series[PURPLE], 1)
      dot(ctx, x, y, look.series[PURPLE], 6)
      const side = x > width - 70 ? -1 : 1
      const style = { color: look.letters[PURPLE], size: 14, weight: 700, halo: true }
      write(ctx, look, two(product(gap())), x + 12 * side, y, { ...style, align: side > 0 ? "left" : "right" })
    },
  })
  stage.say(() => {
    const [query, key] = at().map(Math.floor)
    return `Query at ${query}, key at ${key}, Δ = ${minus(gap())}: the products add up to q · k = ${two(product(gap()))}.`
  })
}

const still = () => 0 // from where each arrow key is one step
const minus = (/** @type {number | string} */ value) => String(value).replace("-", "−")
const two = (/** @type {number} */ value) => fixed(value, 2)
const angle = (/** @type {ArrayLike<number>} */ tip) => Math.atan2(tip[1], tip[0])

/** The phase difference, from the key's vector to the query's on the short way. @param {Float64Array[]} vectors */
const phase = ([query, key]) => {
  const open = angle(query) - angle(key)
  return Math.atan2(Math.sin(open), Math.cos(open))
}

/** Both lengths and the cosine, of which a pair's part of the dot product is made. @param {Float64Array[]} vectors */
const factors = (vectors) =>
  `${vectors.map((tip) => Math.hypot(...tip).toFixed(2)).join(" · ")} · cos ${Math.abs(phase(vectors)).toFixed(2)}`

/** @param {Ctx} ctx @param {Look} look @param {{ x: number, y: number, radius: number }} spot
 * @param {Float64Array[]} vectors @param {number} frequency @param {number} part @param {number} ringed which is chosen
 */
const drawPair = (ctx, look, { x, y, radius }, vectors, frequency, part, ringed) => {
  const start = angle(vectors[1])
  const open = phase(vectors)
  ctx.beginPath()
  ctx.moveTo(x, y)
  ctx.arc(x, y, radius * 0.42, -start, -start - open, open > 0)
  ctx.globalAlpha = 0.4
  ctx.fillStyle = look.series[PURPLE]
  ctx.fill()
  ctx.globalAlpha = 1
  dial(ctx, look, x, y, radius, start, look.series[1], Math.hypot(...vectors[1]))
  hand(ctx, x, y, radius * Math.hypot(...vectors[0]), angle(vectors[0]), look.series[0])
  vectors.forEach(([a, b], who) => {
    if (who === ringed) dot(ctx, x + radius * a, y - radius * b, look.ink, 8)
    dot(ctx, x + radius * a, y - radius * b, look.series[who], 6)
  })
  write(ctx, look, `θ = ${frequency}`, x - radius - 5, y - radius - 1, { size: 11, color: look.soft })
  write(ctx, look, factors(vectors), x, y + radius + 18, { size: 11.5, align: "center" })
  const style = { size: 13.5, weight: 700, color: look.letters[PURPLE] }
  write(ctx, look, `= ${two(part)}`, x, y + radius + 34, { ...style, align: "center" })
}

/** The text as a line, with the two tokens on it.
 * @type {(ctx: Ctx, look: Look, width: number, positions: number[], last: number) => void} */
const ruler = (ctx, look, width, positions, last) => {
  const x = (/** @type {number} */ p) => 30 + (p / last) * (width - 60)
  stroke(ctx, [x(0), 24], [x(last), 24], look.rule, 1.2)
  positions.forEach((p, who) => {
    dot(ctx, x(p), 24, look.series[who], 5.5)
    const style = { color: look.letters[who], weight: 600 }
    write(ctx, look, `${NAMES[who]} ${p}`, x(p), who ? 41 : 8, { ...style, align: "center" })
  })
}
